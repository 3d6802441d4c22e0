"""Scopes: which partitions a model has, as a for-comprehension over series, lists and ranges.

    for:
      month: TIMESERIES('2024-01-01', '2025-01-01', 'P1M')
      store: [Paris, Detroit]
      last: LAST_DAY(month)
    if: store <> 'Detroit' OR month >= '2024-06-01'

Each binding may name those before it; every combination for which ``if`` holds is one scope, and
one partition. Its names are constants in the query.

What belongs here: scopes from bindings. What doesn't: reading the file they stand in
(`mirrorlake.models.declaration`), and what a query makes of them.

Source: ISO 8601-1, 5.5.2 "Duration" (periods); ISO/IEC 9075-2 has no such thing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal

from sqlglot import exp

from mirrorlake.config.fields import zone_of
from mirrorlake.errors import ModelError
from mirrorlake.models import types
from mirrorlake.models.arithmetic import digits
from mirrorlake.models.columns import Typed
from mirrorlake.models.evaluate import Constant, Unknown, add_months, cast_to, evaluate
from mirrorlake.models.parse import parse_expression

MOST_SCOPES = 1_000_000
"""More partitions than that are a mistake: a day a partition lasts for 2,700 years."""
_PERIOD = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?)?"
)


@dataclass(frozen=True)
class Binding:
    """One name of a scope: a list of values, or an expression that gives one value or several.

    Attributes:
        line: of the file, from 1.
    """

    name: str
    values: tuple[str, ...] | str
    line: int


@dataclass(frozen=True)
class Scopes:
    """What a model is computed for.

    Attributes:
        bindings: in order; none: the model has one scope, without names.
        condition: which combinations there are; None: all.
        line: where it stands.
    """

    bindings: tuple[Binding, ...] = ()
    condition: str | None = None
    line: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.bindings)

    def all(self, now: datetime) -> Iterator[dict[str, Constant]]:
        """Every scope, in the order of its bindings: name → value.

        Args:
            now: what ``CURRENT_DATE`` and ``CURRENT_TIMESTAMP`` are (UTC).

        Raises:
            ModelError: a binding or the condition is wrong, there is no scope, or there are more
                than `MOST_SCOPES`.
        """
        condition = None if self.condition is None else _parsed(self.condition, self.line)
        bound = [(one, _Values.of(one, now)) for one in self.bindings]
        count = 0
        for scope in _combined(bound, {}):
            if condition is not None and _holds(condition, scope, self.line, now) is not True:
                continue
            count += 1
            if count > MOST_SCOPES:
                raise _refused(
                    f"the model has more than {MOST_SCOPES:,} scopes",
                    self.line,
                    "Bind fewer values",
                )
            yield scope
        if not count:
            raise _refused("the model has no scope: it would never be computed", self.line)

    def types(self, now: datetime) -> dict[str, Typed]:
        """What each name is to the query: a constant that is never NULL.

        Raises:
            ModelError: as `all` says; or a name has values that have no type in common, or NULL.
        """
        kinds: dict[str, set[str]] = {name: set() for name in self.names}
        for scope in self.all(now):
            for name, value in scope.items():
                kinds[name].add(kind_of(value))
        return {name.lower(): self._typed(name, found) for name, found in kinds.items()}

    def _typed(self, name: str, kinds: set[str]) -> Typed:
        kind = types.common(sorted(kinds))
        if kind is None or types.VOID in kinds:
            line = next(one.line for one in self.bindings if one.name == name)
            what = "is NULL in some scope" if kind is not None else f"is {' and '.join(kinds)}"
            raise _refused(f"`for`: {name} {what}", line, "CAST it")
        return Typed(kind, False)


def kind_of(value: Constant) -> str:
    """The type of a constant, as Spark writes it."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, datetime):
        return "timestamp"
    if isinstance(value, date):
        return "date"
    if isinstance(value, Decimal):
        return types.decimal(*digits(value))
    if isinstance(value, int):
        return "int" if -(2**31) <= value < 2**31 else "bigint"
    return "string" if isinstance(value, str) else "void"


def text_of(value: Constant) -> str:
    """A value as a person writes it."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value)
    return text.replace("%", "%25").replace("/", "%2F")


def _is_number(text: str) -> bool:
    """Whether a text is how a number is written: ``01`` is a text, and stays one."""
    return re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text) is not None


def _combined(
    bound: Sequence[tuple[Binding, _Values]], before: dict[str, Constant]
) -> Iterator[dict[str, Constant]]:
    if not bound:
        yield dict(before)
        return
    (binding, values), *rest = bound
    for value in values.given(before):
        yield from _combined(rest, {**before, binding.name: value})


def _holds(node: exp.Expr, scope: Mapping[str, Constant], line: int, now: datetime) -> Constant:
    try:
        return _constant(node, {name.lower(): value for name, value in scope.items()}, now)
    except Unknown as error:
        raise _refused(f"`if` can't be evaluated: {error}", line) from None


@dataclass(frozen=True)
class _Values:
    """The values of one binding, given those before it."""

    binding: Binding
    node: exp.Expr | None
    listed: tuple[Constant, ...]
    now: datetime

    @staticmethod
    def of(binding: Binding, now: datetime) -> _Values:
        if isinstance(binding.values, str):
            return _Values(binding, _parsed(binding.values, binding.line), (), now)
        texts = binding.values
        numbers = bool(texts) and all(map(_is_number, texts))
        listed = tuple(int(text) for text in texts) if numbers else texts
        double = next((one for one, count in Counter(texts).items() if count > 1), None)
        if double is not None:
            words = f"`for`: {binding.name}: {double} is there twice"
            raise _refused(words, binding.line)
        return _Values(binding, None, listed, now)

    def given(self, before: Mapping[str, Constant]) -> Iterator[Constant]:
        if self.node is None:
            yield from self.listed
            return
        names = {name.lower(): value for name, value in before.items()}
        node, now = self.node, self.now
        name = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
        try:
            arguments = [_constant(one, names, now) for one in node.expressions] if name else []
            if name == "TIMESERIES":
                yield from self._series(arguments)
            elif name == "RANGE":
                yield from self._range(arguments)
            else:
                yield _constant(node, names, now)
        except Unknown as error:
            raise self._wrong(f"can't be evaluated: {error}") from None

    def _range(self, arguments: Sequence[Constant]) -> Iterator[int]:
        numbers = [n for n in arguments if isinstance(n, int) and not isinstance(n, bool)]
        if len(numbers) != len(arguments) or len(numbers) not in (2, 3):
            raise self._wrong("RANGE takes a first number, one past the last, and perhaps a step")
        if len(numbers) == 3 and numbers[2] <= 0:
            raise self._wrong("the step of a RANGE is a number above 0")
        yield from range(*numbers)

    def _series(self, arguments: Sequence[Constant]) -> Iterator[Constant]:
        """``TIMESERIES(from, to, period[, zone])``: ``to`` is not in it."""
        if len(arguments) not in (3, 4) or not isinstance(arguments[2], str):
            raise self._wrong("TIMESERIES takes a start, an end, and a period like 'P1D'")
        zone: tzinfo = UTC
        if len(arguments) == 4:
            try:
                zone = zone_of(str(arguments[3]))
            except ValueError as error:
                raise self._wrong(str(error)) from None
        months, days, clock = self._period(arguments[2])
        start, end = (self._moment(one, zone) for one in arguments[:2])
        by_day = _is_day(arguments[0]) and not clock
        try:
            until = end.replace(tzinfo=zone).astimezone(UTC)
            last = start.replace(tzinfo=zone).astimezone(UTC) - timedelta.resolution
        except OverflowError:
            raise self._wrong("a time before the year 1, or past 9999, in UTC") from None
        for number in range(MOST_SCOPES + 1):
            # From the start each time: a month after the 31st is its last day, and two are the 31st
            # again. Months and days are the calendar's, hours and minutes the clock's: an hour that
            # comes twice in autumn is two.
            try:
                wall = add_months(start, number * months) + number * days
                at = wall.replace(tzinfo=zone).astimezone(UTC) + number * clock
            except (OverflowError, ValueError):
                return  # past the year 9999, in which the end is
            if at >= until:
                return
            if at <= last:
                continue  # a day that a zone left out, as Samoa did on 30 December 2011
            last = at
            yield wall.date() if by_day else at

    def _period(self, text: str) -> tuple[int, timedelta, timedelta]:
        """Months, days, and time by the clock."""
        found = _PERIOD.fullmatch(text)
        years, months, weeks, days, hours, minutes = (
            (int(part or 0) for part in found.groups()) if found else (0,) * 6
        )
        try:
            clock = timedelta(hours=hours, minutes=minutes)
            length = timedelta(weeks=weeks, days=days)
        except OverflowError:
            raise self._wrong(f"{text!r} is longer than time is") from None
        if not found or not (years or months or weeks or days or clock):
            raise self._wrong(f"{text!r} is no period: write it like P1D, P1M or PT1H")
        return years * 12 + months, length, clock

    def _moment(self, value: Constant, zone: tzinfo) -> datetime:
        """A bound by the wall clock of the series' zone."""
        if isinstance(value, str):
            try:
                cast_to(value, "timestamp")  # what Python takes besides, Spark does not
                value = datetime.fromisoformat(value)
            except (Unknown, ValueError):
                raise self._wrong(f"{value!r} is no date or time") from None
        if isinstance(value, datetime):
            return value.astimezone(zone).replace(tzinfo=None) if value.tzinfo else value
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a wall clock
        raise self._wrong(f"{value!r} is no date or time")

    def _wrong(self, words: str) -> ModelError:
        return _refused(f"`for`: {self.binding.name}: {words}", self.binding.line)


def _constant(node: exp.Expr, names: Mapping[str, Constant], now: datetime) -> Constant:
    if isinstance(node, exp.CurrentDate):
        return now.astimezone(UTC).date()
    if isinstance(node, exp.CurrentTimestamp):
        return now.astimezone(UTC)
    replaced = node.transform(lambda one: _now(one, now))
    return evaluate(replaced, names)


def _now(node: exp.Expr, now: datetime) -> exp.Expr:
    if isinstance(node, exp.CurrentDate):
        return exp.cast(exp.Literal.string(now.astimezone(UTC).date().isoformat()), "date")
    if isinstance(node, exp.CurrentTimestamp):
        return exp.cast(exp.Literal.string(now.astimezone(UTC).isoformat()), "timestamp")
    return node


def _is_day(value: Constant) -> bool:
    """Whether a series begins with a day, and not with a moment."""
    if isinstance(value, str):
        return re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) is not None
    return isinstance(value, date) and not isinstance(value, datetime)


def _parsed(text: str, line: int) -> exp.Expr:
    try:
        return parse_expression(text)
    except ModelError as error:
        raise _refused(f"{error.message}: {text}", line) from None


def _refused(words: str, line: int, next_step: str = "") -> ModelError:
    return ModelError(words, place=(line, 1), next_step=next_step, in_header=True)
