"""What the record of a partition says beside the versions of the tables that it read: the values
that its query was given, and what its readers take it for.

They stand among its inputs, under names that no table has, so that the commit says them, too.

What belongs here: those names and values. What doesn't: states
(`mirrorlake.models.partition_states.states`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirrorlake.models.compile.clock_and_chance import reads_the_day
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.ledger import ModelPartition
from mirrorlake.models.scope_values.comprehension import ScopeValues, text_of

_DAY = "CURRENT_DATE"
_FOR = "for "
_AS, _WHY = "read as", "read as, because"


def values_besides(project: Project, model: Model, scope: ScopeValues) -> dict[str, str]:
    """What a query is given beside rows: the names under ``for`` that are no part of the
    partition's own name, and the day (UTC), where it says CURRENT_DATE, or reads a view that
    does."""
    by = model.declaration.partition_by
    found = {f"{_FOR}{name}": text_of(value) for name, value in scope.items() if name not in by}
    if reads_the_day(project.models, model):
        found[_DAY] = model.now.date().isoformat()
    return found


def moved_besides(record: ModelPartition, now: Mapping[str, str]) -> Iterator[str]:
    """Which of these are others than when a partition was computed, in words."""
    for name, value in now.items():
        was = record.inputs.get(name)
        if was != value:
            before = f"was {was}" if was is not None else "was not kept"
            yield f"{name.removeprefix(_FOR)} {before}, and is {value}"


def seen_version(record: ModelPartition) -> int:
    """The commit that readers take a partition's rows to be of: an earlier one, where it was
    computed again only because somebody had declared it invalid without them."""
    return int(record.inputs.get(_AS, record.snapshot_id))


def held_as(record: ModelPartition, why: str) -> dict[str, str]:
    """The words for a partition that is computed again without a change for its readers."""
    return {_AS: str(seen_version(record)), _WHY: why}


def held_since(above: ModelPartition, reader: ModelPartition) -> str:
    """Why a partition was computed again since another was computed from it, which stays as it is;
    empty where it was not."""
    later = (
        above.computed_at is not None
        and reader.computed_at is not None
        and above.computed_at > reader.computed_at
    )
    return above.inputs.get(_WHY, "") if later else ""
