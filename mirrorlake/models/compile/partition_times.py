"""The time of a model's partitions: by what one is newer than another.

What belongs here: which name says it, and which partitions a retention keeps by it. What doesn't:
retentions (`mirrorlake.models.scope_values.retention`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from mirrorlake.errors import ModelError
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.models.scope_values.retention import split_scopes
from mirrorlake.models.spark_sql.columns import Typed

_TIMES = ("date", "timestamp")


def time_names(declaration: Declaration, types: Mapping[str, Typed]) -> tuple[str, ...]:
    """The names of a model's partitions that are dates or timestamps."""
    return tuple(name for name in declaration.partition_by if types[name].type in _TIMES)


def time_name(declaration: Declaration, types: Mapping[str, Typed]) -> str:
    """The name by whose value the partitions of a snapshot, or of a model with a retention, are one
    newer than the other.

    Raises:
        ModelError: it is partitioned by no time, or by several; with the place in its header.
    """
    names = time_names(declaration, types)
    if len(names) == 1:
        return names[0]
    field = "materialized" if declaration.is_snapshot else "retention"
    place = declaration.header.problem((field,), "")
    if declaration.is_view:
        raise ModelError(
            f"a {declaration.materialized} has no rows of its own that could be kept for a time",
            place=(place.line, place.column),
            next_step="Leave out `retention`, or make it a table with partitions",
            in_header=True,
        )
    what = "a snapshot" if declaration.is_snapshot else "a model with a retention"
    found = f"{len(names)}: {', '.join(names)}" if names else "none"
    raise ModelError(
        f"{what} is partitioned by one date or timestamp, and this one by {found}",
        place=(place.line, place.column),
        next_step=f"Leave all but one of them out of `partition_by`: `partition_by: [{names[0]}]`"
        if names
        else "Bind one under `for`: `day: TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')`",
        in_header=True,
    )


def kept_and_gone(
    declaration: Declaration,
    scopes: Sequence[ScopeValues],
    types: Mapping[str, Typed],
    now: datetime,
) -> tuple[Sequence[ScopeValues], Sequence[ScopeValues]]:
    """The scopes of a model that its retention keeps, and the others.

    Raises:
        ModelError: it is partitioned by no time, or by several; with the place in its header.
    """
    if declaration.retention is None:
        return scopes, ()
    name = time_name(declaration, types)
    return split_scopes(scopes, name, declaration.retention, now)
