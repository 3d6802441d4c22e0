"""Rules as JSON can say them, and back.

What belongs here: the text of rules. What doesn't: what they mean
(`mirrorlake.models.cache.scope_rules`), and where texts are kept (`mirrorlake.models.cache.model`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from mirrorlake.models.cache.scope_rules import (
    MentionBounds,
    MirrorRule,
    ModelRule,
    MovableBound,
    ReadRule,
    ScopeClass,
    Shifted,
    TableRule,
)
from mirrorlake.models.row_filters.value_sets import Interval, ValueSet

_TICK = timedelta.resolution


def plain_rules(rules: Mapping[ScopeClass, Sequence[ReadRule]]) -> Sequence[object]:
    """Rules by class of scopes, as lists, texts and numbers."""
    return [
        ([_plain(one) for one in place], [_plain_rule(one) for one in several])
        for place, several in rules.items()
    ]


def read_rules(said: Sequence[Any]) -> dict[ScopeClass, list[ReadRule]]:
    """What `plain_rules` said.

    Raises:
        ValueError, TypeError, KeyError: it is no such thing.
    """
    return {tuple(map(_value, place)): [_rule(one) for one in several] for place, several in said}


def _plain_rule(rule: ReadRule) -> object:
    return rule.first, rule.last, [_plain_table(one) for one in rule.inputs]


def _plain_table(one: TableRule) -> object:
    if isinstance(one, MirrorRule):
        days = [(_plain(low), _plain(high)) for low, high in one.days]
        return "mirror", one.table, one.column, days
    mentions = [[(name, _plain_set(values)) for name, values in some] for some in one.mentions]
    return "model", one.table, one.bounded, mentions


def _plain_set(values: ValueSet) -> object:
    return [
        (_plain(part.low), _plain(part.high), part.from_low, part.to_high) for part in values.parts
    ]


def _plain(value: Any) -> object:
    """A constant, a bound, or a part of a class."""
    if isinstance(value, tuple):
        return ["of", *map(_plain, value)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, Shifted):
        return ["shift", value.by // _TICK, value.moment]
    if isinstance(value, timedelta):
        return ["time", value // _TICK]
    if isinstance(value, datetime):
        return ["moment", value.isoformat()]
    if isinstance(value, date):
        return ["day", value.isoformat()]
    return ["number", str(value)] if isinstance(value, Decimal) else value


def _rule(said: Sequence[Any]) -> ReadRule:
    first, last, inputs = said
    return ReadRule(int(first), int(last), tuple(map(_table, inputs)))


def _table(said: Sequence[Any]) -> TableRule:
    kind, table, second, third = said
    if kind == "mirror":
        days = tuple((_bound(low), _bound(high)) for low, high in third)
        return MirrorRule(table, second, days)
    return ModelRule(table, tuple(map(_mention, third)), bool(second))


def _mention(said: Sequence[Any]) -> MentionBounds:
    return tuple((name, _set(parts)) for name, parts in said)


def _set(said: Sequence[Any]) -> ValueSet:
    return ValueSet(
        tuple(Interval(_bound(low), _bound(high), begins, ends) for low, high, begins, ends in said)
    )


def _bound(said: Any) -> MovableBound:
    found: MovableBound = _value(said)
    return found


def _value(said: Any) -> Any:
    if not isinstance(said, list):
        return said
    kind, *rest = said  # pyright: ignore[reportUnknownVariableType]
    return _KINDS[kind](*rest)


_KINDS: dict[str, Any] = {
    "of": lambda *parts: tuple(map(_value, parts)),
    "shift": lambda ticks, moment: Shifted(ticks * _TICK, moment),
    "time": lambda ticks: ticks * _TICK,
    "moment": datetime.fromisoformat,
    "day": date.fromisoformat,
    "number": Decimal,
}
