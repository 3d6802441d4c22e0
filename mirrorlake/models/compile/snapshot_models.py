"""Models that keep what their query gave: each partition is taken once, while its time is the
newest one, and then stays as it was taken.

What belongs here: which partitions can be taken. What doesn't: their states
(`mirrorlake.models.partition_states.states`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mirrorlake.models.compile.model import Model
from mirrorlake.models.compile.partition_times import time_name
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.models.scope_values.retention import values_of
from mirrorlake.models.spark_sql.constants.values import Constant


def newest_time(model: Model) -> Constant:
    """The time of the partitions of a snapshot that can be taken, as of when it was compiled."""
    return _newest(time_name(model.declaration, model.types), model.scopes)


def is_over(model: Model, scope: ScopeValues, now: datetime) -> bool:
    """Whether a partition of a snapshot can't be taken any more, as of a moment (UTC)."""
    name = time_name(model.declaration, model.types)
    return scope[name] != _newest(name, model.declaration.scopes.all(now))


def _newest(name: str, scopes: Sequence[ScopeValues]) -> Constant:
    return values_of(scopes, name)[-1]
