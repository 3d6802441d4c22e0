"""What the sides of part ``fold`` would cost over 15 TB, by the figures that were just measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.report import Section

TARGET = 15e12
TIMES_A_DAY = 6


@dataclass(frozen=True)
class Cost:
    """One fold of one side, or the median of several (``spread``: the fastest and the slowest).
    Bytes; ``memory`` is the most execution memory of one of its stages."""

    seconds: float
    read: int
    written: int
    shuffled: int
    memory: int
    scan: float
    strategy: str = ""
    spread: tuple[float, float] = (0.0, 0.0)


def cost_model(found: Mapping[float, Mapping[str, Cost]], size: int, cores: int) -> Section:
    """Every side at every share, carried over to a table of 15 TB.

    Args:
        found: the costs by share and side.
        size: bytes of the table that was measured.
    """
    factor = TARGET / size
    rows: list[tuple[str, ...]] = []
    for share, costs in found.items():
        for name, cost in costs.items():
            hours = cost.seconds * cores * factor / 3600
            rows.append(
                (
                    f"{share:.2%}",
                    f"{name} ({cost.strategy})" if cost.strategy else name,
                    f"{cost.read * factor / 1e12:.2f}",
                    f"{cost.written * factor / 1e12:.3f}",
                    f"{cost.shuffled * factor / 1e12:.2f}",
                    f"{hours:,.0f}",
                    f"{hours * TIMES_A_DAY / 24:,.0f}",
                )
            )
    columns = ("changed", "side", "TB read", "TB written", "TB shuffled", "core hours")
    columns += (f"cores kept busy, {TIMES_A_DAY} times a day",)
    about = (
        f"Carried over from the table of {size / 1e6:,.0f} MB above to 15 TB (730 days): "
        f"`x(15 TB) = x(measured) × 15 TB / {size / 1e6:,.0f} MB` for bytes, and `core hours = "
        f"seconds × {cores} cores × 15 TB / {size / 1e6:,.0f} MB / 3600`. Every step is a scan, a "
        "shuffle or a write of a fixed part of the table, so all of them grow as it does; a "
        "cluster's own overheads are not in it, nor what the smaller table saves by lying in the "
        "page cache."
    )
    notes = (
        "`diff` names up to 200,000 cells of keys. Where changes lie in some days, as in a sliding "
        "window that is corrected at its end, its line holds. Where 0.1 % changes evenly over all "
        "of 15 TB, more cells differ than it can name, and the fold costs what the lines with "
        "`merge` say: it then saves the bytes written, not the shuffle.",
    )
    return Section("Cost model for 15 TB", about, columns, tuple(rows), notes)
