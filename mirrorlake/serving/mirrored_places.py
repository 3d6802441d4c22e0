"""Where the mirrored tables of a config are, or will be, in the lake: without a look at it.

A location asks it while it is loaded, so nothing that reads is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import Identifier

ReadLayer = Literal["deduped", "clean"]


def mirrored_places(config: Config) -> dict[str, tuple[Identifier, ReadLayer, Mirrored]]:
    """The mirrored tables of a config, loaded or not, as queries write them in lower case."""
    found: dict[str, tuple[Identifier, ReadLayer, Mirrored]] = {}
    for contract in config.mirrored:
        places: Mapping[ReadLayer, str] = {
            "deduped": contract.namespaces.deduped,
            "clean": contract.namespaces.clean,
        }
        for layer, namespace in places.items():
            identifier = Identifier(namespace, contract.table)
            found[str(identifier).lower()] = identifier, layer, contract
    return found
