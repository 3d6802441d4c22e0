"""One code location of the benchmark `scale-tables`: loads it as a code server does, ticks its
sensors, and prints what that took as JSON: ``location_of CONTRACT [SOURCE] --ticks N``.

With a source it takes that source's tables out of the whole contract file, as a component's
``tables.include`` does.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_shared.serdes import serialize_value

from benchmarks.location import ticker
from dagster_mirrorlake.build import build_definitions
from dagster_mirrorlake.location import few_collections
from dagster_mirrorlake.resources.contracts import read_config
from dagster_mirrorlake.selection import select_tables
from dagster_mirrorlake.sensors.partitions import BOUND_SECONDS


def main(path: str, source: str, ticks: int) -> dict[str, Any]:
    """Seconds, MB and numbers of one location. Ticks are not counted until a sensor has seen every
    table, and has reported all that was loaded before."""
    imported = _memory()
    begun = time.perf_counter(), time.process_time()
    with few_collections():
        config = read_config(path)
        if source:
            config = select_tables(config, [f"{source}.*"])
        defs = build_definitions(config)
    repository = defs.get_repository_def()
    repository.load_all_definitions()
    snapshot = serialize_value(RepositorySnap.from_def(repository))
    took = time.perf_counter() - begun[0], time.process_time() - begun[1]
    graph = defs.resolve_asset_graph()
    found: dict[str, Any] = {
        "tables": len(config.tables),
        "assets": len(graph.get_all_asset_keys()),
        "checks": len(graph.asset_check_keys),
        "seconds": took[0],
        "cpu": took[1],
        "imported": imported,
        "loaded": _memory(),
        "snapshot": len(snapshot) / 1e6,
        "ticks": {},
    }
    del snapshot
    # One source's: the others of a location with all of them are ticked alike.
    moved = sorted(s.name for s in repository.sensor_defs if s.name.startswith("moved_"))
    with dg.DagsterInstance.ephemeral() as instance:
        for name in (moved[0], "unfolded", "partitions") if ticks else ():
            tick = ticker(defs, repository, instance, name)
            tick()
            while _timed(tick)[0] >= BOUND_SECONDS:
                pass  # `partitions` reports what was loaded before, some of it each time
            found["ticks"][name.split("_")[0]] = [_timed(tick) for _ in range(ticks)]
    found["ticked"] = _memory()
    return found


def _timed(tick: Any) -> tuple[float, float]:
    begun = time.perf_counter(), time.process_time()
    tick()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def _memory() -> float:
    """MB of this process alone."""
    text = Path(f"/proc/{os.getpid()}/smaps_rollup").read_text("utf-8")
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
