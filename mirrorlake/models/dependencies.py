"""Which partitions of which tables a partition of a model is computed from.

Theoretical ones: those that the query could read, whether or not they are there. Of a model that it
reads these are scopes, of a mirrored table days of the column that decides a row's day. Where
nothing bounds them it reads all, and that is said.

What belongs here: from reach to partitions. What doesn't: what a query reads
(`mirrorlake.models.reach`), and the state of partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from mirrorlake.models.catalogue import Catalogue, MirroredTable
from mirrorlake.models.evaluate import Constant
from mirrorlake.models.external_tables import ExternalTable
from mirrorlake.models.project import Model, Project, ScopeValues
from mirrorlake.models.reach import TableReach, reach
from mirrorlake.models.spans import Interval, ValueSet


@dataclass(frozen=True)
class ModelInput:
    """Partitions of a model that another reads.

    Attributes:
        keys: their names; all that the model has where ``bounded`` is false.
    """

    table: str
    keys: tuple[str, ...]
    bounded: bool


@dataclass(frozen=True)
class MirrorInput:
    """Days of a mirrored table that a model reads.

    Attributes:
        column: by whose date the days are meant: the one that decides a row's day by the contract,
            or another that the query bounds; None where there is none.
        days: periods of days, both ends in them, in order; None is without an end. Empty where no
            row can matter.
    """

    table: str
    column: str | None
    days: tuple[tuple[date | None, date | None], ...]

    @property
    def bounded(self) -> bool:
        return self.days != EVERY_DAY


EVERY_DAY: tuple[tuple[date | None, date | None], ...] = ((None, None),)


@dataclass(frozen=True)
class ExternalInput:
    """What a model reads of a table that is made elsewhere.

    Attributes:
        mentions: for each place where the query names it, those of its partition columns that have
            a bound, in lower case, with their values. Empty where no row can matter.
    """

    table: str
    mentions: tuple[tuple[tuple[str, ValueSet], ...], ...]

    @property
    def bounded(self) -> bool:
        return all(self.mentions)

    @property
    def reached(self) -> Sequence[Mapping[str, ValueSet]]:
        """The mentions, each by column."""
        return [dict(one) for one in self.mentions]


Input = ModelInput | MirrorInput | ExternalInput


def inputs_of(
    project: Project, catalogue: Catalogue, model: Model, scope: ScopeValues
) -> tuple[Input, ...]:
    """What one scope of a model reads, in the order in which its query names the tables.

    Raises:
        ModelError: the scopes of a model that it reads can't be evaluated.
    """
    found = reach(model.query, model.bound, scope)
    inputs: list[Input] = []
    for table in model.bound.reads:
        mentions = [one for one in found if one.table == table]
        upstream = project.models.get(table)
        if upstream is not None:
            inputs.append(_of_model(upstream, mentions))
        elif table in model.externals:
            inputs.append(_of_external(model.externals[table], mentions))
        else:
            mirrored = catalogue.table(table)
            day = _bounded_day(mirrored, mentions) if mirrored is not None else None
            inputs.append(_of_mirror(table, day, mentions))
    return tuple(inputs)


def external_inputs(model: Model, scope: ScopeValues) -> tuple[ExternalInput, ...]:
    """What one scope of a model reads of tables that are made elsewhere."""
    if not model.externals:
        return ()
    found = reach(model.query, model.bound, scope)
    return tuple(
        _of_external(table, [one for one in found if one.table == name])
        for name, table in model.externals.items()
    )


def unbounded(project: Project, catalogue: Catalogue, model: Model) -> Iterator[str]:
    """Warnings: tables that have partitions, all of which each partition of the model reads."""
    if not model.partitioned:
        return
    scope = model.scopes[0]
    for one in reach(model.query, model.bound, scope):
        upstream, mirrored = project.models.get(one.table), catalogue.table(one.table)
        columns = upstream.declaration.partition_by if upstream is not None else ()
        day = _bounded_day(mirrored, [one]) if mirrored is not None else None
        if day is not None:
            columns = (day,)
        if one.table in model.externals:
            columns = model.externals[one.table].declaration.partition_by
        if columns and all(one.bound(column).is_all for column in columns):
            line, col = model.declaration.place(one.place or (1, 1))
            where = f"{model.declaration.path}:{line}:{col}"
            yield (
                f"{where}: every partition reads all of {one.table}: no condition that can be "
                f"analysed bounds its {' or '.join(columns)}"
            )


def _of_external(table: ExternalTable, mentions: Sequence[TableReach]) -> ExternalInput:
    by = [name.lower() for name in table.declaration.partition_by]
    return ExternalInput(
        table.name,
        tuple(
            tuple((name, one.bound(name)) for name in by if not one.bound(name).is_all)
            for one in mentions
        ),
    )


def _of_model(upstream: Model, mentions: list[TableReach]) -> ModelInput:
    by = upstream.declaration.partition_by
    bounded = bool(by) and all(
        any(not one.bound(column).is_all for column in by) for one in mentions
    )
    keys = dict.fromkeys(
        upstream.key_of(scope)
        for scope in upstream.scopes
        if any(_holds(one, scope, by) for one in mentions)
    )
    return ModelInput(upstream.name, tuple(keys), bounded)


def _holds(mention: TableReach, scope: ScopeValues, columns: tuple[str, ...]) -> bool:
    return all(mention.bound(name).touches(scope[name], scope[name]) for name in columns)


def _bounded_day(mirrored: MirroredTable, mentions: Sequence[TableReach]) -> str | None:
    """The column by whose days an input is named: the contract's own where the query bounds it,
    else any other date or time that each mention of the table bounds."""
    own = [mirrored.day] if mirrored.day is not None else []
    for column in (*own, *mirrored.times):
        if mentions and not any(one.bound(column).is_all for one in mentions):
            return column
    return mirrored.day


def _of_mirror(table: str, day: str | None, mentions: list[TableReach]) -> MirrorInput:
    if not mentions:
        return MirrorInput(table, day, ())
    if day is None:
        return MirrorInput(table, None, EVERY_DAY)
    spans = [one.bound(day) for one in mentions]
    periods = [_days(part) for span in spans for part in span.parts]
    return MirrorInput(table, day, _joined(periods))


def _days(one: Interval) -> tuple[date | None, date | None]:
    """The days that have a value of an interval; without an end where a bound is no time."""
    low, high = _moment(one.low), _moment(one.high)
    last = None if high is None else high.date()
    if high is not None and not one.to_high and high.time() == time(0) and high.date() > date.min:
        last = high.date() - timedelta(days=1)
    return (None if low is None else low.date()), last


def _moment(value: Constant) -> datetime | None:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return None


def _joined(
    periods: list[tuple[date | None, date | None]],
) -> tuple[tuple[date | None, date | None], ...]:
    """Periods in order, those that touch as one.

    >>> _joined([(date(2024, 5, 3), None), (date(2024, 5, 1), date(2024, 5, 2))])
    ((datetime.date(2024, 5, 1), None),)
    """
    found: list[tuple[date, date]] = []
    for first, last in sorted((lo or date.min, hi or date.max) for lo, hi in periods):
        if first > last:
            continue
        near = found and (found[-1][1] == date.max or first <= found[-1][1] + timedelta(days=1))
        if near:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(
        (None if lo == date.min else lo, None if hi == date.max else hi) for lo, hi in found
    )
