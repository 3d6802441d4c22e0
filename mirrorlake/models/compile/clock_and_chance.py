"""Functions whose value no row decides: the clock, chance, and who asks.

A table is made of its inputs, so that it can be said when it is stale, and be made again. Of these
functions CURRENT_DATE alone can be followed: what says it is stale with the next day.

What belongs here: which of them a query calls, itself or by a view, and what that means. What
doesn't: the state of partitions (`mirrorlake.models.partition_states.states`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.compile.model import Model
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.spark_sql.functions import DAY, NON_DETERMINISTIC
from mirrorlake.models.spark_sql.node_places import at

_MENTIONED = re.compile(
    "|".join(sorted(re.escape(one.rstrip("()")) for one in NON_DETERMINISTIC)), re.IGNORECASE
)


def _unsteady_of(models: Mapping[str, Model], model: Model) -> tuple[str, ...]:
    """The functions whose value no row decides that a model calls, itself or by a view."""
    own: tuple[str, ...] = ()
    if _MENTIONED.search(model.kept.sql):
        own = tuple(name for name, _ in model.bound.unstable)
    views = (
        models[name] for name in model.reads if name in models and models[name].declaration.is_view
    )
    return (*own, *(name for view in views for name in _unsteady_of(models, view)))


def reads_the_day(models: Mapping[str, Model], model: Model) -> bool:
    """Whether a table is another one each day: a view is looked at whenever it is read."""
    return not model.declaration.is_view and not DAY.isdisjoint(_unsteady_of(models, model))


def refuse_unsteady(
    declaration: Declaration,
    reads: Iterable[str],
    models: Mapping[str, Model],
    query: Callable[[], exp.Expr],
) -> None:
    """See that a table reads no view whose rows are others each time.

    Raises:
        ModelError: it does, with the place.
    """
    if declaration.is_view:
        return
    for name in reads:
        if name in models and models[name].declaration.is_view:
            for function in _unsteady_of(models, models[name]):
                if is_unsteady(declaration, function):
                    nodes = query().find_all(exp.Table)
                    place = next(
                        (at(one) for one in nodes if one.sql("spark").lower().startswith(name)),
                        None,
                    )
                    words = f"{name} is a view with {unsteady_words(declaration, function)}"
                    raise ModelError(words, place=place, next_step=STEP)


STEP = "Bind what is needed under `for`, or make the model a view"


def is_unsteady(declaration: Declaration, function: str) -> bool:
    """Whether a function makes a model one of which nobody could say when it is stale."""
    if declaration.is_view:
        return False
    return function not in DAY or bool(declaration.partition_by)


def unsteady_words(declaration: Declaration, function: str) -> str:
    """What is wrong with such a function."""
    why = "nobody could say when the table is stale"
    if declaration.partition_by:
        why = "a partition could not be made again"
    return f"{function.rstrip('()')}() gives something else each time: {why}"
