"""How far back readers look, beside how long what they read is kept.

A partition that goes takes nothing with it: what was computed from it stays, and can't be computed
again. So all that a partition reads must be there when its own time is over, and for as long again
as it lasted: runs are late at times. What has no time of its own can be computed on any day, and
must find it on each. Both follow from the calendar, and are looked at for a year to come.

What belongs here: the comparison. What doesn't: which partitions are kept
(`mirrorlake.models.scope_values.retention`), and which are read when
(`mirrorlake.models.compile.computable_from`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlglot import exp

from mirrorlake.config.fields import format_duration
from mirrorlake.errors import ModelError
from mirrorlake.models.cache.scope_rules import RuleFinder
from mirrorlake.models.compile.computable_from import YEAR, PartitionReader, PartitionReading
from mirrorlake.models.compile.model import Model
from mirrorlake.models.compile.partition_times import time_name, time_names
from mirrorlake.models.scope_values.comprehension import text_of
from mirrorlake.models.scope_values.retention import Retention, moment_of, values_of
from mirrorlake.models.spark_sql.constants.values import Constant
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.models.spark_sql.parser import table_name

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


def refuse_short_retention(model: Model, models: Mapping[str, Model], look: RuleFinder) -> None:
    """See that a model finds what it reads of those above it that keep partitions for a time only.
    A view shows what is there; a table of what a view shows would lose what goes.

    Args:
        models: all above it, by name.
        look: what a scope of the model reads.

    Raises:
        ModelError: it would not; with the place where it reads the other one.
    """
    if model.declaration.is_view:
        return
    times = time_names(model.declaration, model.types)
    scopes = model.declaration.scopes
    for name in model.reads:
        above = models.get(name)
        if above is None:
            continue
        if above.declaration.retention is not None:
            reader = PartitionReader(scopes, times, model.rules, look, model.now)
            _refuse(model, above, above.declaration.retention, reader)
        elif not model.declaration.is_snapshot:
            _refuse_through(model, above, models)


def _refuse_through(model: Model, view: Model, models: Mapping[str, Model]) -> None:
    """A view has no partitions: a query of it reads everything that it shows. What a snapshot takes
    of it stays."""
    for above in _shown_by(view, models):
        retention = above.declaration.retention
        if retention is not None:
            name = time_name(above.declaration, above.types)
            raise _refused(
                model,
                view,
                f"it reads all partitions of {above.name}, by the view {view.name}: they are kept "
                f"for {retention.text}",
                f"Read {above.name} itself, {name} bounded by the names under `for`",
            )


def _shown_by(view: Model, models: Mapping[str, Model]) -> Iterator[Model]:
    """The tables that a view shows, through other views; none of a table."""
    for name in view.reads if view.declaration.is_view else ():
        above = models.get(name)
        if above is not None:
            yield above
            yield from _shown_by(above, models)


def _refuse(model: Model, above: Model, retention: Retention, reader: PartitionReader) -> None:
    name = time_name(above.declaration, above.types)
    ends = _Ends(values_of(above.declaration.scopes.all(model.now + YEAR), name))
    worst: tuple[timedelta, PartitionReading, Constant] | None = None
    for one in reader.of(above.name, name):
        for first in one.firsts:
            if first is None:
                words = f"all partitions of {above.name}, which keeps them for {retention.text}"
                step = f"Bound {name} by the names under `for`, or make this a view"
                raise _refused(model, above, f"it reads {words}", step)
            end = ends.of_first_from(first.value, inclusive=first.inclusive)
            if end is None or (end > retention.before(one.until) and not one.fixed):
                continue
            if worst is None or one.until - end > worst[0]:
                worst = one.until - end, one, first.value
    if worst is not None:
        length, one, value = worst
        suffices = f"`retention: {_longer(length)}` in {above.declaration.path} suffices"
        raise _refused(
            model,
            above,
            f"{model.name} {one.words}".strip() + f" reads {above.name} from "
            f"{name}={text_of(value)} on, which keeps partitions for {retention.text}: they would "
            "be gone before it is surely computed",
            f"Bound {name} by names under `for` that go with time"
            if one.fixed
            else f"{suffices}; or look back less far",
        )


def _longer(length: timedelta) -> str:
    """The shortest retention of whole days that is longer, or of whole hours below two days."""
    unit = _HOUR if length < 2 * _DAY else _DAY
    return format_duration((length // unit + 1) * unit)


class _Ends:
    """Where the partitions of a model end."""

    def __init__(self, values: Sequence[Constant]) -> None:
        self._begins = [moment_of(value) for value in values]

    def of_first_from(self, value: Constant, *, inclusive: bool) -> datetime | None:
        """The end of the first partition that begins at a value, or later; None of the newest."""
        side = bisect.bisect_left if inclusive else bisect.bisect_right
        place = side(self._begins, moment_of(value)) + 1
        return self._begins[place] if place < len(self._begins) else None


def _refused(model: Model, read: Model, words: str, step: str) -> ModelError:
    nodes = (one for one in model.query.find_all(exp.Table) if table_name(one) == read.name)
    place = next((found for one in nodes if (found := at(one)) is not None), None)
    return ModelError(words, place=place, next_step=step)
