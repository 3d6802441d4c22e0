"""Whether the views are there of which a model is made that is a view itself.

What belongs here: looking. What doesn't: making them
(`mirrorlake.models.partition_states.stream_views`).
"""

from __future__ import annotations

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.errors import LakeDamaged
from mirrorlake.models.compile.model import Model
from mirrorlake.models.partition_states.lake_tables import model_table
from mirrorlake.serving.catalogue import Catalogue, MirroredTable
from mirrorlake.table.streamed import streamed_of, why_nothing_to_add


def streamed_tables(catalogue: Catalogue, model: Model) -> dict[str, MirroredTable]:
    """The mirrored tables that a stream view reads with the loads that are not folded, by name. Of
    others there is nothing to add."""
    found = {name: catalogue.table(name) for name in model.reads}
    return {
        name: one
        for name, one in found.items()
        if one is not None and not why_nothing_to_add(one.contract)
    }


def lost_view(lake: Lake, catalogue: Catalogue, model: Model) -> Identifier | None:
    """A view that is not there any more, of those that a model made: its own, or one of current
    rows that a stream view reads. A person drops it, or a rule that no view can keep takes it away.

    Raises:
        LakeError: the lake can't be read.
    """
    views = [model_table(model)]
    if model.declaration.materialized == "stream view":
        tables = streamed_tables(catalogue, model).values()
        views += [streamed_of(one.identifier) for one in tables]
    return next((view for view in views if not _is_there(lake, view)), None)


def _is_there(lake: Lake, view: Identifier) -> bool:
    try:
        return read_view(lake, view) is not None
    except LakeDamaged:
        return True
