"""Where the mirrored tables of a config are, or will be, in the lake: without a look at it.

A location asks it while it is loaded, so nothing that reads is imported here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import Identifier

ReadLayer = Literal["deduped", "clean"]


def mirrored_places(config: Config) -> dict[str, tuple[Identifier, ReadLayer, Mirrored]]:
    """The mirrored tables of a config, loaded or not, as queries write them in lower case; those
    whose names differ in case alone by their exact names."""
    places = [*_places(config)]
    lowered = Counter(str(one[0]).lower() for one in places)
    return {
        str(one[0]) if lowered[str(one[0]).lower()] > 1 else str(one[0]).lower(): one
        for one in places
    }


def _places(config: Config) -> Iterator[tuple[Identifier, ReadLayer, Mirrored]]:
    for contract in config.mirrored:
        places: Mapping[ReadLayer, str] = {
            "deduped": contract.namespaces.deduped,
            "clean": contract.namespaces.clean,
        }
        for layer, namespace in places.items():
            yield Identifier(namespace, contract.table), layer, contract
