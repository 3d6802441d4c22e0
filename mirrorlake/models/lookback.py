"""How far back readers look, beside how long what they read is kept.

A partition that goes takes nothing with it: what was computed from it stays, and can't be computed
again. So all that a partition reads must be there when its own time is over, and for as long again
as it lasted: runs are late at times. Whether it is follows from the calendar, and is looked at for
a year to come.

What belongs here: the comparison. What doesn't: which partitions are kept
(`mirrorlake.models.retention`).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.evaluate import Constant
from mirrorlake.models.model import Model
from mirrorlake.models.parse import table_name
from mirrorlake.models.partition_times import time_name
from mirrorlake.models.place import at
from mirrorlake.models.retention import Retention, moment_of, values_of
from mirrorlake.models.rules import ModelRule, ReadRule
from mirrorlake.models.scopes import ScopeValues

_AHEAD = timedelta(days=400)
"""A year, with the last month of the one before it: longer, no calendar month is different."""


RuleOf = Callable[[Model, ScopeValues], tuple[ReadRule, int]]
"""`mirrorlake.models.dependencies.rule_of` within a project."""


def refuse_short_retention(model: Model, models: Mapping[str, Model], rule_of: RuleOf) -> None:
    """See that a model finds what it reads of those above it that keep partitions for a time only.
    A view shows what is there.

    Args:
        models: all above it, by name.

    Raises:
        ModelError: it would not; with the place where it reads the other one.
    """
    if model.declaration.is_view:
        return
    for name in model.reads:
        above = models.get(name)
        if above is not None and above.declaration.retention is not None:
            _refuse(model, above, above.declaration.retention, rule_of)


def _refuse(model: Model, above: Model, retention: Retention, rule_of: RuleOf) -> None:
    name = time_name(above.declaration, above.types)
    then = model.now + _AHEAD
    ends = _Ends(values_of(above.declaration.scopes.all(then), name))
    for scope, over in _times_over(model, then):
        for since in _reads_since(*rule_of(model, scope), above.name, name):
            if since is None:
                words = f"all partitions of {above.name}, which keeps them for {retention.text}"
                step = f"Bound {name} by the names under `for`, or make this a view"
                raise _refused(model, above, f"it reads {words}", step)
            end = ends.of_first_from(since)
            if end is not None and end <= retention.before(over):
                raise _refused(
                    model,
                    above,
                    f"{model.key_of(scope) or 'it'} reads {above.name} from {since} on, which "
                    f"keeps partitions for {retention.text}: they would be gone before it is "
                    "surely computed",
                    f"Let {above.declaration.path} keep them for more than "
                    f"{(over - end).days} days, or look back less far",
                )


class _Ends:
    """Where the partitions of a model end."""

    def __init__(self, values: Sequence[Constant]) -> None:
        self._begins = [moment_of(value) for value in values]

    def of_first_from(self, value: Constant) -> datetime | None:
        """The end of the first partition that begins at a value, or later; None of the newest."""
        place = bisect.bisect_left(self._begins, moment_of(value)) + 1
        return self._begins[place] if place < len(self._begins) else None


def _times_over(model: Model, then: datetime) -> Iterator[tuple[ScopeValues, datetime]]:
    """The scopes of a model, until a moment to come, each with when its time is over, and it has
    had as long again to be computed; one without a time can be computed now."""
    scopes = model.declaration.scopes.all(then)
    by = [n for n in model.declaration.partition_by if model.types[n].type in ("date", "timestamp")]
    if not by:
        yield from ((scope, model.now) for scope in scopes)
        return
    begins = {name: [moment_of(one) for one in values_of(scopes, name)] for name in by}
    for scope in scopes:
        yield scope, max(_over(begins[name], moment_of(scope[name])) for name in by)


def _over(begins: Sequence[datetime], begin: datetime) -> datetime:
    place = bisect.bisect_left(begins, begin)
    if place + 1 < len(begins):
        return begins[place + 1] + (begins[place + 1] - begin)
    return begin + 2 * (begin - begins[place - 1]) if place else begin


def _reads_since(rule: ReadRule, day: int, above: str, name: str) -> Iterator[Constant]:
    """The first value that each mention of a model reads of its time; None without a first."""
    for one in rule.inputs:
        if isinstance(one, ModelRule) and one.table == above:
            for mention in one.at(day):
                for part in dict(mention)[name].parts:
                    yield part.low if isinstance(part.low, date) else None


def _refused(model: Model, above: Model, words: str, step: str) -> ModelError:
    nodes = (one for one in model.query.find_all(exp.Table) if table_name(one) == above.name)
    place = next((found for one in nodes if (found := at(one)) is not None), None)
    return ModelError(words, place=place, next_step=step)
