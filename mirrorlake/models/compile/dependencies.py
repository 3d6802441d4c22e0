"""Which partitions of which tables a partition of a model is computed from.

Theoretical ones: those that the query could read, whether or not they are there. Of a model that it
reads these are scopes, of a mirrored table days of the column that decides a row's day. Where
nothing bounds them it reads all, with a warning.

A query is looked at once for all scopes that differ in their days alone, and its
rules give the readers of a partition, too: `mirrorlake.models.cache.scope_rules`.

What belongs here: from reach to partitions. What doesn't: what a query reads
(`mirrorlake.models.row_filters.rows_read`), and the state of partitions.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import cast

from mirrorlake.models.cache.scope_rules import MirrorRule, ModelRule, ReadRule, TableRule, at_day
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.external_sources.tables import ExternalInput, ExternalTable
from mirrorlake.models.row_filters.rows_read import TableReach, reach
from mirrorlake.models.row_filters.value_sets import Interval
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.models.scope_values.on_demand import ScopeProduct
from mirrorlake.models.spark_sql.constants.moving_days import midnight
from mirrorlake.models.spark_sql.constants.values import Constant
from mirrorlake.serving.catalogue import Catalogue, MirroredTable


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
    days: tuple[ReadPeriod, ...]

    @property
    def bounded(self) -> bool:
        return self.days != EVERY_DAY


ReadPeriod = tuple[date | None, date | None]
EVERY_DAY: tuple[ReadPeriod, ...] = ((None, None),)


Input = ModelInput | MirrorInput | ExternalInput


def inputs_of(
    project: Project, catalogue: Catalogue, model: Model, scope: ScopeValues
) -> tuple[Input, ...]:
    """What one scope of a model reads, in the order in which its query names the tables.

    Raises:
        ModelError: the scopes of a model that it reads can't be evaluated.
    """
    rule, day = rule_of(project, catalogue, model, scope)
    return tuple(_input(project, one, day) for one in rule.inputs)


def rule_of(
    project: Project, catalogue: Catalogue, model: Model, scope: ScopeValues
) -> tuple[ReadRule, int]:
    """What a scope reads, as it holds for others, too; and the day that its bounds are counted
    from."""
    return model.rules.find(scope, lambda names: looked_up(project, catalogue, model, names))


def reads_gone(
    project: Project, catalogue: Catalogue, model: Model, scope: ScopeValues
) -> tuple[str, str] | None:
    """A model that a scope reads, and one of its partitions that its retention does not keep; None
    where there is none: then all that it reads can be there.

    Raises:
        ModelError: the scopes of a model that it reads can't be evaluated.
    """
    if not any(name in project.models and project.models[name].gone for name in model.reads):
        return None
    rule, day = rule_of(project, catalogue, model, scope)
    for one in rule.inputs:
        above = project.models.get(one.table)
        if isinstance(one, ModelRule) and above is not None and above.gone:
            keys = above.gone_index.within(one.at(day))
            if keys:
                return above.name, keys[-1]
    return None


def learn_rules(project: Project, catalogue: Catalogue, model: Model) -> None:
    """Find the rules for all scopes of a model at once, where they are few; the others are found
    when somebody asks for one of their scopes.

    Raises:
        ModelError: the scopes of a model that it reads can't be evaluated.
    """
    if isinstance(model.scopes, ScopeProduct) or len(model.scopes) <= _MOST_LEARNT:
        rules = model.rules.cover(
            model.scopes, lambda names: looked_up(project, catalogue, model, names)
        )
        for _ in itertools.islice(rules, _MOST_LEARNT):
            pass


_MOST_LEARNT = 400
"""Rules that are found of a model before somebody asks: a month has one, in thirty years 360."""


def readers_of(
    project: Project, catalogue: Catalogue, model: Model, scope: ScopeValues
) -> dict[str, tuple[str, ...]]:
    """Model → its partitions that read one partition of another.

    Raises:
        ModelError: the scopes of a reader can't be evaluated.
    """
    return {
        name: tuple(_reading(project, catalogue, project.models[name], model.name, scope))
        for name in project.readers.get(model.name, ())
    }


def _reading(
    project: Project, catalogue: Catalogue, reader: Model, table: str, scope: ScopeValues
) -> Iterator[str]:
    found: list[int] = []
    for rule, members in reader.rules.spread(
        reader.scopes, lambda names: looked_up(project, catalogue, reader, names)
    ):
        for one in rule.inputs:
            if isinstance(one, ModelRule) and one.table == table:
                first, last = one.reading(scope)
                begin = bisect.bisect_left(members, first, key=lambda member: member[0])
                end = bisect.bisect_right(members, last, key=lambda member: member[0])
                found += [place for day, place in members[begin:end] if one.reads(scope, day)]
    yield from dict.fromkeys(reader.key_of(reader.scopes[place]) for place in sorted(found))


def looked_up(
    project: Project, catalogue: Catalogue, model: Model, names: ScopeValues
) -> Iterator[TableRule]:
    """What a scope of these names reads, as it is found by a look at the query."""
    found = reach(model.query, model.bound, names)
    for table in model.reads:
        mentions = [one for one in found if one.table == table]
        upstream = project.models.get(table)
        if upstream is not None:
            yield _model_rule(upstream, mentions)
        elif table in model.externals:
            made = _of_external(model.externals[table], mentions)
            yield ModelRule(table, made.mentions, made.bounded)
        else:
            mirrored = catalogue.table(table)
            day = _bounded_day(mirrored, mentions) if mirrored is not None else None
            one = _of_mirror(table, day, mentions)
            yield MirrorRule(one.table, one.column, one.days)


def _model_rule(upstream: Model, mentions: list[TableReach]) -> ModelRule:
    by = upstream.declaration.partition_by
    bounds = [tuple((name, one.bound(name)) for name in by) for one in mentions]
    bounded = bool(by) and all(any(not values.is_all for _, values in one) for one in bounds)
    return ModelRule(upstream.name, tuple(bounds), bounded)


def _input(project: Project, rule: TableRule, day: int) -> Input:
    if isinstance(rule, ModelRule) and rule.table not in project.models:
        return ExternalInput(rule.table, rule.at(day))
    if isinstance(rule, ModelRule):
        keys = project.models[rule.table].index.within(rule.at(day))
        return ModelInput(rule.table, keys, rule.bounded)
    days = tuple((at_day(low, day), at_day(high, day)) for low, high in rule.days)
    # Bounds of days are days.
    return MirrorInput(rule.table, rule.column, cast("tuple[ReadPeriod, ...]", days))


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
    # One partition alone may read all: the first, what is older than all others.
    newest = set(_unbounded_in(project, catalogue, model, model.scopes[-1]))
    for words in _unbounded_in(project, catalogue, model, model.scopes[0]):
        if words in newest:
            yield words


def _unbounded_in(
    project: Project, catalogue: Catalogue, model: Model, scope: ScopeValues
) -> Iterator[str]:
    if all(one.bounded for one in rule_of(project, catalogue, model, scope)[0].inputs):
        return
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


def _days(one: Interval) -> ReadPeriod:
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
        return midnight(value)
    return None


def _joined(
    periods: list[ReadPeriod],
) -> tuple[ReadPeriod, ...]:
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
