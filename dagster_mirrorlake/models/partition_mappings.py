"""Which partitions of an input a model's partitions read, as Dagster's own mappings say it.

Dagster serialises only the kinds of mappings that it has: of one of ours the web server would see
nothing, and infer a wrong one. So a model's rules become time windows with offsets, lists of keys,
or one of these for each dimension, where that is exactly what they say; and everything where it is
not. What a run reads is decided by the engine, whatever stands here.

What belongs here: from rules to mappings. What doesn't: how rules are found
(`mirrorlake.models.cache.scope_rules`), and what assets are called
(`dagster_mirrorlake.models.model_asset`).
"""

import calendar
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property

import dagster as dg

from mirrorlake.models.cache.model import KeptModel
from mirrorlake.models.cache.scope_rules import (
    MentionBounds,
    MirrorRule,
    ModelRule,
    Shifted,
    TableRule,
    moved,
    shifts,
)
from mirrorlake.models.row_filters.value_sets import Interval, ValueSet
from mirrorlake.models.scope_values.comprehension import ScopeValues, text_of
from mirrorlake.models.scope_values.partition_index import PartitionIndex
from mirrorlake.models.spark_sql.constants.values import Constant

EVERYTHING = dg.AllPartitionMapping()
MOST_RULES = 400
_MOST_PAIRS = 5_000
"""A longer list of keys is not written into the location's snapshot: everything is, instead."""
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Side:
    """A model or a mirrored table, as one end of a mapping.

    Attributes:
        names: those by which it is partitioned; of a mirrored table the column whose days are its
            partitions.
        looked_up: Dagster's keys of its partitions, of a model.
    """

    partitions: dg.PartitionsDefinition[str]
    names: tuple[str, ...]
    looked_up: Callable[[], PartitionIndex] | None = None

    @cached_property
    def index(self) -> PartitionIndex | None:
        """Dagster's keys of its partitions, by their values; None of a mirrored table."""
        return self.looked_up() if self.looked_up is not None else None

    def dimension(self, name: str) -> dg.PartitionsDefinition[str]:
        """The partitions by one of its names."""
        if isinstance(self.partitions, dg.MultiPartitionsDefinition):
            return next(
                one.partitions_def for one in self.partitions.partitions_defs if one.name == name
            )
        return self.partitions


@dataclass(frozen=True)
class _Held:
    """What some scopes of a model read of one table.

    Attributes:
        values: the names that stand in the query → the value that these scopes have in common, or
            how many days theirs are from the day of each.
        days: of these scopes, in order.
    """

    values: Mapping[str, object]
    rule: TableRule
    days: Sequence[int]


def mapping_of(
    kept: KeptModel | None,
    scopes: Sequence[ScopeValues],
    model: Side,
    table: str,
    above: Side,
) -> dg.PartitionMapping:
    """Which partitions of an input each partition of a model reads, or all of them.

    Args:
        kept: what was found of the model.
        scopes: all that it has.
        table: the input, as its query names it.
    """
    held = _held(kept, scopes, table)
    if kept is None or not held:
        return EVERYTHING
    static = dg.StaticPartitionsDefinition
    if _is_same(held):
        return _whole(held[0].rule, above)
    if isinstance(model.partitions, static) and isinstance(above.partitions, static):
        return _listed(kept, scopes, model, table, above) or EVERYTHING
    return _by_window(held, model, above) or _by_dimension(held, model, above) or EVERYTHING


def _held(kept: KeptModel | None, scopes: Sequence[ScopeValues], table: str) -> list[_Held]:
    """What all scopes read of a table; nothing where that is not known of each."""
    if kept is None:
        return []
    found: list[_Held] = []
    try:
        for place, rule, days in itertools.islice(kept.rules.cover(scopes, _unknown), MOST_RULES):
            values = dict(zip(kept.rules.used, place, strict=True))
            found += [_Held(values, one, days) for one in rule.inputs if one.table == table]
    except LookupError:
        return []
    return found if len(found) < MOST_RULES else []


def _unknown(_: ScopeValues) -> Iterator[TableRule]:
    raise LookupError


# --- the same for all partitions ------------------------------------------------------------------


def _is_same(held: Sequence[_Held]) -> bool:
    rule = held[0].rule
    return all(one.rule == rule for one in held) and not _moves(rule)


def _moves(rule: TableRule) -> bool:
    if isinstance(rule, MirrorRule):
        return any(isinstance(bound, Shifted) for days in rule.days for bound in days)
    sets = (values for mention in rule.mentions for _, values in mention)
    return any(True for values in sets for _ in shifts(values))


def _whole(rule: TableRule, above: Side) -> dg.PartitionMapping:
    """What all scopes read alike."""
    if isinstance(rule, ModelRule) and above.index is not None:
        keys = above.index.within(rule.mentions)
        if keys and len(keys) <= _MOST_PAIRS and len(keys) < len(set(above.index.keys)):
            return dg.SpecificPartitionsPartitionMapping(list(keys))
    return EVERYTHING


# --- key by key, where both sides are lists -------------------------------------------------------


def _listed(
    kept: KeptModel, scopes: Sequence[ScopeValues], model: Side, table: str, above: Side
) -> dg.PartitionMapping | None:
    if above.index is None or model.index is None or len(scopes) > _MOST_PAIRS:
        return None
    pairs: dict[str, set[str]] = {}
    for number, scope in enumerate(scopes):
        rule, day = kept.rules.find(scope, _unknown)
        for one in rule.inputs:
            if isinstance(one, ModelRule) and one.table == table:
                for key in above.index.within(one.at(day)):
                    pairs.setdefault(key, set()).add(model.index.keys[number])
        if sum(map(len, pairs.values())) > _MOST_PAIRS:
            return None
    return _by_key(pairs)


def _by_key(pairs: Mapping[str, set[str]]) -> dg.PartitionMapping:
    return dg.StaticPartitionMapping({key: sorted(several) for key, several in pairs.items()})


# --- days that are so far apart -------------------------------------------------------------------


def _by_window(held: Sequence[_Held], model: Side, above: Side) -> dg.PartitionMapping | None:
    if len(model.names) != 1 or len(above.names) != 1:
        return None
    return _window(held, (model, model.names[0]), (above, above.names[0]))


def _window(
    held: Sequence[_Held], below: tuple[Side, str], over: tuple[Side, str]
) -> dg.PartitionMapping | None:
    """A window of days around each day of a name, where all scopes read the same one."""
    windows = dg.TimeWindowPartitionsDefinition
    days = below[0].dimension(below[1])
    if not isinstance(over[0].dimension(over[1]), windows):
        return None
    if isinstance(days, dg.MonthlyPartitionsDefinition):
        whole = all(_are_months(one, below[1], over[1]) for one in held)
        offsets = {(0, 0) if whole else None}
    elif isinstance(days, dg.DailyPartitionsDefinition):
        offsets = {_offsets(one, below[1], over[1]) for one in held}
    else:
        return None
    found = offsets.pop()
    if offsets or found is None:
        return None
    return dg.TimeWindowPartitionMapping(
        start_offset=found[0], end_offset=found[1], allow_nonexistent_upstream_partitions=True
    )


def _are_months(one: _Held, below: str, above: str) -> bool:
    """Whether the days that are read are those of the month that begins with the scope's day."""
    by = _days_apart(one.values.get(below))
    return by is not None and all(
        list(_parts(one.rule, above)) and _is_month(one.rule, above, day, by) for day in one.days
    )


def _is_month(rule: TableRule, column: str, day: int, by: int) -> bool:
    first = date.fromordinal(day + by)
    last = first.replace(day=calendar.monthrange(first.year, first.month)[1])
    parts = (moved(ValueSet((part,)), day).parts[0] for part in _parts(rule, column))
    return all(
        (type(part.low), type(part.high)) == (date, date)
        and part.low + timedelta(not part.from_low) == first
        and part.high - timedelta(not part.to_high) == last
        for part in parts
    )


def _offsets(one: _Held, below: str, above: str) -> tuple[int, int] | None:
    """From how many days after a name's day to how many some scopes read: a single stretch."""
    by = _days_apart(one.values.get(below))
    periods = [*map(_period, _parts(one.rule, above))]
    if by is None or not periods or None in periods:
        return None
    stretches = sorted(period for period in periods if period is not None)
    first, last = stretches[0]
    for begin, end in stretches[1:]:
        if begin > last + 1:
            return None
        last = max(last, end)
    return first - by, last - by


def _days_apart(value: object) -> int | None:
    """How many days a name's are from those that bounds are counted from."""
    if isinstance(value, tuple) and value[0] == "day":  # pyright: ignore[reportUnknownMemberType]
        return int(value[1])  # pyright: ignore[reportUnknownArgumentType]
    return None


def _parts(rule: TableRule, column: str) -> Iterator[Interval]:
    """The values of a column that a rule reads, by mention."""
    if isinstance(rule, MirrorRule):
        for low, high in rule.days if rule.column == column else [(None, None)]:
            yield Interval(low, high)
        return
    for mention in rule.mentions:
        yield from dict(mention)[column].parts


def _period(part: Interval) -> tuple[int, int] | None:
    """From how many days after the scope's to how many; None of what does not move so."""
    ends = (part.low, part.high)
    if not all(isinstance(end, Shifted) and not end.moment for end in ends):
        return None
    return part.low.by // _DAY + (not part.from_low), part.high.by // _DAY - (not part.to_high)


# --- a mapping for each dimension -----------------------------------------------------------------


def _by_dimension(held: Sequence[_Held], model: Side, above: Side) -> dg.PartitionMapping | None:
    several = dg.MultiPartitionsDefinition
    if above.index is None or any(len(set(_mentions(one.rule))) != 1 for one in held):
        return None
    if isinstance(model.partitions, several) and isinstance(above.partitions, several):
        return _of_both(held, model, above)
    one, other = (model, above) if len(model.names) == 1 else (above, model)
    if len(one.names) != 1 or not isinstance(other.partitions, several):
        return None
    return _of_single(held, model, above, other)


def _of_both(held: Sequence[_Held], model: Side, above: Side) -> dg.PartitionMapping | None:
    """Each dimension of the input by another of the model, as Dagster wants it."""
    found = {name: _dimension(held, model, above, name) for name in above.names}
    known = {name: one for name, one in found.items() if one is not None}
    left = [*model.names]
    for below, mapping in known.values():
        if mapping is not EVERYTHING:
            if below not in left:
                return None
            left.remove(below)
    if len(known) < len(found) or len(left) == len(model.names):
        return None
    return dg.MultiPartitionMapping(
        {
            name: dg.DimensionPartitionMapping(
                below if mapping is not EVERYTHING else left.pop(), mapping
            )
            for name, (below, mapping) in known.items()
        }
    )


def _of_single(
    held: Sequence[_Held], model: Side, above: Side, several: Side
) -> dg.PartitionMapping | None:
    """One side has a single dimension, that is also one of the other's: the same key is read."""
    found = {name: _dimension(held, model, above, name) for name in above.names}
    bounded = [
        (name, one) for name, one in found.items() if one is None or one[1] is not EVERYTHING
    ]
    if len(bounded) != 1 or bounded[0][1] is None:
        return None
    name, (of, mapping) = bounded[0][0], bounded[0][1]
    below, over = model.dimension(of), above.dimension(name)
    if below != over or not _is_identity(mapping, below):
        return None
    return dg.MultiToSingleDimensionPartitionMapping(of if several is model else name)


def _is_identity(mapping: dg.PartitionMapping, keys: dg.PartitionsDefinition[str]) -> bool:
    if isinstance(mapping, dg.TimeWindowPartitionMapping):
        return (mapping.start_offset, mapping.end_offset) == (0, 0)
    same = {key: [key] for key in keys.get_partition_keys()}
    return mapping == dg.StaticPartitionMapping(same)


def _mentions(rule: TableRule) -> Sequence[MentionBounds]:
    return rule.mentions if isinstance(rule, ModelRule) else ()


def _dimension(
    held: Sequence[_Held], model: Side, above: Side, name: str
) -> tuple[str, dg.PartitionMapping] | None:
    """What is read of one dimension of an input, and by which dimension of the model."""
    sets = [dict(_mentions(one.rule)[0])[name] for one in held]
    if any(values.is_all for values in sets):
        return (model.names[0], EVERYTHING) if all(one.is_all for one in sets) else None
    for below in model.names:
        found = _window(held, (model, below), (above, name))
        if found is None and _are_lists(model.dimension(below), above.dimension(name)):
            pairs = _pairs(held, sets, below, above, name)
            found = _by_key(pairs) if pairs else None
        if found is not None:
            return below, found
    return None


def _are_lists(*sides: dg.PartitionsDefinition[str]) -> bool:
    return all(isinstance(one, dg.StaticPartitionsDefinition) for one in sides)


def _pairs(
    held: Sequence[_Held], sets: Sequence[ValueSet], below: str, above: Side, name: str
) -> Mapping[str, set[str]] | None:
    """Key of a dimension of the input → keys of one of the model; None where that alone does not
    decide it."""
    assert above.index is not None  # noqa: S101
    read: dict[str, tuple[str, ...]] = {}
    for one, values in zip(held, sets, strict=True):
        for value, bounds in _values(one, values, below):
            key = text_of(value)
            keys = tuple(map(text_of, above.index.values_within(name, bounds)))
            if read.setdefault(key, keys) != keys or len(read) > _MOST_PAIRS:
                return None
    pairs: dict[str, set[str]] = {}
    for key, keys in read.items():
        for over in keys:
            pairs.setdefault(over, set()).add(key)
    return pairs if read else None


def _values(one: _Held, values: ValueSet, below: str) -> Iterator[tuple[Constant, ValueSet]]:
    """A name's values in some scopes, each with what is read there."""
    by, own = _days_apart(one.values.get(below)), one.values.get(below)
    if by is not None:
        for day in one.days:
            yield date.fromordinal(day + by), moved(values, day)
    elif isinstance(own, tuple) and own[0] != "moment" and not any(True for _ in shifts(values)):
        yield own[1], values
