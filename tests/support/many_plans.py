"""Queries of which Spark compiles each anew: no class that one needs was compiled for another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PLANS = 250


def run_plans(session: Any, is_enough: Callable[[], bool] = lambda: False) -> None:
    """Run them all, one after another, or until it is enough."""
    for number in range(PLANS):
        if is_enough():
            return
        columns = ", ".join(_column(number, k) for k in range(3 + number % 9))
        session.sql(
            f"SELECT c0, count(*) AS n, max(c1) FROM (SELECT {columns} FROM range(3000)) "
            "GROUP BY c0 HAVING count(*) > 0 ORDER BY n, c0 LIMIT 3"
        ).collect()


def _column(number: int, k: int) -> str:
    hashed = f"sha2(cast(id + {number} AS STRING), 256)"
    return (
        f"CASE WHEN id % {k + 2} = {number % (k + 2)} THEN concat(id, 'x{number}') "
        f"ELSE upper(substr({hashed}, {k + 1}, 9)) END AS c{k}"
    )
