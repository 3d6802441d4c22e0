"""Part ``memory``: the peak memory of a load as its table grows tenfold.

One process per size, so that nothing of another size counts; without the JVM, where there is one.
"""

from __future__ import annotations

from benchmarks.extract import CASES, job_of
from benchmarks.processes import python_side
from benchmarks.report import Figures, Section
from benchmarks.source import load_lineitem, started

SMALLEST, STEPS = 0.3, (1.0, 10.0)


def run(_runs: int, scale: float) -> Figures:
    """Peaks at 0.3 and 3 times the scale factor, for the ways that a table is read in."""
    rows: list[tuple[str, ...]] = []
    with started() as source:
        for step in STEPS:
            size = SMALLEST * step * scale
            load_lineitem(source, size)
            for case in CASES[:2]:
                folder = source.folder / f"{case.mode}-{size:g}"
                side = python_side("mirrorlake", "benchmarks.sides.ours", folder)
                found = side.run(job_of(source, case, side))
                side.close()
                rows.append(
                    (
                        f"{size:g}",
                        case.mode,
                        f"{found.rows:,}",
                        f"{found.seconds:.1f}",
                        f"{found.peak:.0f}",
                        f"{found.peak_without_jvm:.0f}",
                    )
                )
    columns = ("scale factor", "mode", "rows", "s", "peak MB", "of it not JVM")
    return [Section("lineitem", "Peak of the whole process tree.", columns, tuple(rows))]
