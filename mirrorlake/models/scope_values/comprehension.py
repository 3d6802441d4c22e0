"""Scopes: which partitions a model has, as a for-comprehension over series, lists and ranges.

    for:
      month: TIMESERIES('2024-01-01', '2025-01-01', 'P1M')
      store: [Paris, Detroit]
      last: LAST_DAY(month)
    if: store <> 'Detroit' OR month >= '2024-06-01'

Each binding may name those before it; every combination for which ``if`` holds is one scope, and
one partition. Its names are constants in the query.

Scopes are made when somebody asks for them: how many there are, and which names have which types,
is known without.

What belongs here: scopes from bindings. What doesn't: the values of one binding
(`mirrorlake.models.scope_values.series`), reading the file they stand in
(`mirrorlake.models.files.declaration`), and what a query makes of them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache

from mirrorlake.errors import ModelError
from mirrorlake.models.scope_values.on_demand import DayRange, ScopeProduct
from mirrorlake.models.scope_values.series import (
    MOST_VALUES,
    BoundExpression,
    NoValues,
    bound_expression,
    independent_values,
)
from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.columns import Typed
from mirrorlake.models.spark_sql.constants.values import Constant, Unknown

MOST_SCOPES = MOST_VALUES
MOST_COMBINATIONS = 2 * MOST_SCOPES
"""Evaluating `if` for this many combinations takes about ten seconds."""
ScopeValues = Mapping[str, Constant]


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

    def all(self, now: datetime) -> Sequence[ScopeValues]:
        """Every scope, in the order of its bindings: name → value.

        Args:
            now: what ``CURRENT_DATE`` and ``CURRENT_TIMESTAMP`` are (UTC).

        Raises:
            ModelError: a binding or the condition is wrong, there is no scope, there are more
                than `MOST_SCOPES`, or more than `MOST_COMBINATIONS` would be looked at.
        """
        columns = self._columns(now)
        if columns is not None:
            self._refuse_many(math.prod(map(len, columns.values())))
        if columns is None or self.condition is not None:
            found: Sequence[ScopeValues] = tuple(self._dependent(now))
        else:
            found = ScopeProduct(columns)
        if not found:
            raise _refused("the model has no scope: it would never be computed", self.line)
        return found

    def _refuse_many(self, combinations: int) -> None:
        if self.condition is None and combinations > MOST_SCOPES:
            raise self._too_many()
        if combinations > MOST_COMBINATIONS:
            raise _too_many_combinations(f"{combinations:,}", self.bindings[-1].line)

    def types(self, scopes: Sequence[ScopeValues]) -> dict[str, Typed]:
        """What each name is to the query: a constant that is never NULL.

        Args:
            scopes: all that there are.

        Raises:
            ModelError: a name has values that have no type in common, or NULL.
        """
        if isinstance(scopes, ScopeProduct):
            kinds = {name: _kinds_of(values) for name, values in scopes.columns.items()}
        else:
            kinds = {name: {kind_of(one[name]) for one in scopes} for name in self.names}
        return {name.lower(): self._typed(name, found) for name, found in kinds.items()}

    def _columns(self, now: datetime) -> dict[str, Sequence[Constant]] | None:
        """The values of each name, where none depends on another."""
        found: dict[str, Sequence[Constant]] = {}
        for one in self.bindings:
            if isinstance(one.values, str) and _expression(one).names & found.keys():
                return None
            found[one.name] = _listed(one) or _given(one, {}, now)
        return found

    def _dependent(self, now: datetime) -> Iterator[dict[str, Constant]]:
        text = self.condition
        condition = None if text is None else _parsed(text, self.line)
        count = 0
        for scope in _combined(self.bindings, {}, now, itertools.count(1)):
            if condition is not None and self._holds(condition, scope, now) is not True:
                continue
            count += 1
            if count > MOST_SCOPES:
                raise self._too_many()
            yield scope

    def _too_many(self) -> ModelError:
        words = f"the model has more than {MOST_SCOPES:,} scopes"
        return _refused(words, self.line, "Bind fewer values")

    def _holds(self, node: BoundExpression, scope: ScopeValues, now: datetime) -> Constant:
        try:
            return node.evaluated(scope, now)
        except Unknown as error:
            words = f"`if` can't be evaluated: {error}"
            raise _refused(words, self.line) from None

    def _typed(self, name: str, kinds: set[str]) -> Typed:
        kind = types.common(sorted(kinds))
        if kind is None or types.VOID in kinds:
            line = next(one.line for one in self.bindings if one.name == name)
            what = "is NULL in some scope" if kind is not None else f"is {' and '.join(kinds)}"
            raise _refused(f"`for`: {name} {what}", line, "CAST it")
        return Typed(kind, False)


def _kinds_of(values: Sequence[Constant]) -> set[str]:
    if isinstance(values, DayRange):
        return {"date"}
    ends = (values[0], values[-1]) if isinstance(values, range) else values
    return _kinds(ends) if len(ends) < 100 else _kinds_kept(tuple(ends))


def _kinds(values: Iterable[Constant]) -> set[str]:
    return {kind_of(value) for value in values}


_kinds_kept = lru_cache(maxsize=100)(_kinds)


def kind_of(value: Constant) -> str:
    """The type of a constant, as Spark writes it."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, datetime):
        return "timestamp"
    if isinstance(value, date):
        return "date"
    if isinstance(value, Decimal):
        return types.decimal(*types.digits(value))
    if isinstance(value, int):
        return "int" if -(2**31) <= value < 2**31 else "bigint"
    return "string" if isinstance(value, str) else "void"


def text_of(value: Constant) -> str:
    """A value as a person writes it."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _escaped(str(value))


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")


def shown_text(text: str, values: Iterable[Constant]) -> str:
    """A value that somebody gave, as `text_of` shows it: given as it is shown, or as it is written.

    Args:
        values: those that there are; only looked at where the two differ.

    >>> shown_text("a/b", ["a/b"]), shown_text("a%2Fb", ["a/b"]), shown_text("50%", ["50%"])
    ('a%2Fb', 'a%2Fb', '50%25')
    """
    if text == _escaped(text) or text in map(text_of, values):
        return text
    return _escaped(text)


def _is_number(text: str) -> bool:
    """Whether a text is how a number is written: ``01`` is a text, and stays one."""
    return re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text) is not None


def _combined(
    bindings: Sequence[Binding],
    before: dict[str, Constant],
    now: datetime,
    looked_at: Iterator[int],
) -> Iterator[dict[str, Constant]]:
    if not bindings:
        yield dict(before)
        return
    binding, *rest = bindings
    for value in _listed(binding) or _given(binding, before, now):
        if next(looked_at) > MOST_COMBINATIONS:
            raise _too_many_combinations(f"more than {MOST_COMBINATIONS:,}", binding.line)
        yield from _combined(rest, {**before, binding.name: value}, now, looked_at)


def _listed(binding: Binding) -> Sequence[Constant]:
    """The values of a list; none of an expression."""
    if isinstance(binding.values, str):
        return ()
    texts = binding.values
    double = next((one for one, count in Counter(texts).items() if count > 1), None)
    if double is not None:
        words = f"`for`: {binding.name}: {double} is there twice"
        raise _refused(words, binding.line)
    return tuple(map(int, texts)) if texts and all(map(_is_number, texts)) else texts


def _expression(binding: Binding) -> BoundExpression:
    assert isinstance(binding.values, str)  # noqa: S101
    return _parsed(binding.values, binding.line)


def _given(binding: Binding, before: Mapping[str, Constant], now: datetime) -> Sequence[Constant]:
    """The values of an expression, given the names before it."""
    expression = _expression(binding)
    assert isinstance(binding.values, str)  # noqa: S101
    try:
        if expression.names & before.keys():
            return expression.values(before, now)
        return independent_values(binding.values, now)
    except NoValues as error:
        words = f"`for`: {binding.name}: {error}"
        raise _refused(words, binding.line) from None


def _parsed(text: str, line: int) -> BoundExpression:
    try:
        return bound_expression(text)
    except ModelError as error:
        raise _refused(f"{error.message}: {text}", line) from None


def _too_many_combinations(count: str, line: int) -> ModelError:
    return _refused(
        f"`for` has {count} combinations before `if`: at most {MOST_COMBINATIONS:,} are looked at",
        line,
        "Bind fewer values, or make a name one value of those before it, like `b: a + 1`",
    )


def _refused(words: str, line: int, next_step: str = "") -> ModelError:
    return ModelError(words, place=(line, 1), next_step=next_step, in_header=True)
