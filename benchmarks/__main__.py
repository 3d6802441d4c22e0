"""Side-by-side runs: ``make bench`` prints ratios against something named, and keeps the figures.

Each part is a module of its own, named in ``PARTS``; it returns its figures, and is shown by
`benchmarks.report`. docs/performance.md is made from the committed figures of all parts.

    python -m benchmarks --part extract [--runs 3] [--scale 1]
"""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from benchmarks import (
    binlog,
    cuts,
    ddl,
    extract,
    first,
    fold,
    following,
    location,
    many,
    many_larger,
    memory,
    models,
    plan,
    proof,
    scale_latency,
    scale_rows,
    scale_runs,
    scale_tables,
    streams,
    tenants,
    tick,
    together,
)
from benchmarks.report import Figures, keep, show, write_page
from mirrorlake.operations.loading.warm import make_archive

PARTS: dict[str, Callable[[int, float], Figures]] = {
    "first": first.run,
    "extract": extract.run,
    "types": extract.run_types,
    "memory": memory.run,
    "location": location.run,
    "tick": tick.run,
    "binlog": binlog.run,
    "binlog-follow": following.run,
    "cuts": cuts.run,
    "fold": fold.run,
    "proof": proof.run,
    "many": many.run,
    "many-connect": many_larger.run_connect,
    "many-400": many_larger.run_beside_a_large_one,
    "many-1000": many_larger.run_growth,
    "tenants": tenants.run,
    "ddl": ddl.run,
    "models": models.run,
    "streams": streams.run,
    "plan": plan.run,
    "together": together.run,
    "scale-tables": scale_tables.run,
    "scale-runs": scale_runs.run,
    "scale-rows": scale_rows.run,
    "scale-latency": scale_latency.run,
}


@click.command()
@click.option("--runs", default=3, show_default=True, help="Counted runs of each side.")
@click.option("--scale", default=1.0, show_default=True, help="TPC-H's scale factor.")
@click.option("--part", type=click.Choice([*PARTS]), multiple=True, help="All parts by default.")
@click.option("--dry", is_flag=True, help="Print only: write no figures and no page.")
def main(runs: int, scale: float, part: tuple[str, ...], dry: bool) -> None:
    """Run parts, print their tables, and write their figures and docs/performance.md."""
    make_archive()  # as `make bench` does: without it each start of Spark takes longer
    for name in part or tuple(PARTS):
        command = f"python -m benchmarks --part {name} --runs {runs} --scale {scale:g}"
        if name == "fold" and (shares := os.environ.get("FOLD_SHARES")):
            command = f"FOLD_SHARES={shares} {command}"
        figures = PARTS[name](runs, scale)
        show(figures)
        if not dry:
            # The same tables in two sizes are two results.
            parts = (
                "binlog",
                "ddl",
                "first",
                "fold",
                "many",
                "models",
                "location",
                "plan",
                "scale",
                "streams",
            )
            smaller = name.startswith(parts) and scale != 1
            keep(f"{name}-{scale:g}" if smaller else name, command, figures)
    if not dry:
        write_page()


if __name__ == "__main__":
    main()
