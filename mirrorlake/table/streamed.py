"""The views of current rows, of tables that have loads to add to what is folded.

What belongs here: where they are, and which tables have none. What doesn't: what they say
(`mirrorlake.serving.streamed`).
"""

from __future__ import annotations

from mirrorlake.config.contract import Mirrored, TenantTable
from mirrorlake.config.settings import STREAM_SUFFIX
from mirrorlake.destinations.base import Identifier


def streamed_of(layer: Identifier) -> Identifier:
    """The view that shows a layer as if every load were folded."""
    return Identifier(f"{layer.namespace}{STREAM_SUFFIX}", layer.name)


def why_nothing_to_add(contract: Mirrored) -> str:
    """Why a table has no loads that could be added to deduped: there, what is folded is what is
    shown. Empty where it has."""
    if isinstance(contract, TenantTable):
        return "its tenants are copied as wholes"
    if contract.landed:
        return "it is kept by snapshots"
    if contract.copies:
        return "it is copied as a whole"
    if contract.by_count:
        return "its rows have no key, and are counted as they are folded"
    return "the first time of an entity is found among all its rows" if contract.entity else ""
