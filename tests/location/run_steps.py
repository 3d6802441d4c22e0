"""Runs steps on one code location and writes what happened: ``config steps.json done.json``.

A step: ``tables`` (names), ``day`` or ``days`` ([first, last]); before it ``sql`` (statements by
the mirror's user) and ``plant``: in deduped ``{"duplicate": table}``, or ``{"lose": table}`` for its
row 10. A process of its own, as a run has: a JVM can't be shared with other tests' sessions.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from assets import chain_keys
from definitions import load_definitions
from mirrorlake.config import Config, load_config
from mirrorlake.lake.catalog import Lake
from mirrorlake.mysql.connect import rows_of, session
from mirrorlake.observe import deduped_of
from mirrorlake.spark import LazySpark

_starts: list[str] = []


def _count_starts() -> None:
    start = LazySpark._start

    def counted(self: LazySpark) -> Any:
        _starts.append("jvm")
        return start(self)

    LazySpark._start = counted  # type: ignore[method-assign]


def _plant(config: Config, plan: dict[str, str]) -> None:
    lake = Lake(config.lake)
    for fault, name in plan.items():
        table = lake.load(deduped_of(config.table(name)))
        assert table is not None
        if fault == "duplicate":
            rows = table.scan().to_arrow()
            table.append(rows.slice(0, 1).cast(table.schema().as_arrow()))
        else:
            table.delete("id = 10")


def _run(defs: dg.Definitions, config: Config, step: dict[str, Any]) -> dict[str, Any]:
    if step.get("sql"):
        with session(config.sources["s"]) as connection:
            for statement in step["sql"]:
                rows_of(connection, statement)
    _plant(config, step.get("plant", {}))
    keys = [key for name in step["tables"] for key in chain_keys(config.table(name))]
    tags = {}
    if "days" in step:
        first, last = step["days"]
        tags = {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}
    _starts.clear()
    started = time.monotonic()
    with dg.DagsterInstance.ephemeral() as instance:
        job = defs.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=instance,
            asset_selection=keys,
            partition_key=step.get("day"),
            tags=tags,
            raise_on_error=False,
        )
    return {**_told(result), "seconds": round(time.monotonic() - started, 1)}


def _told(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    made: dict[str, dict[str, Any]] = {}
    for event in result.get_asset_materialization_events():
        materialization = event.step_materialization_data.materialization
        name = materialization.asset_key.to_user_string()
        made.setdefault(name, {})[str(materialization.partition)] = {
            k: v.value for k, v in materialization.metadata.items() if k != "dagster/column_schema"
        } | {"columns": "dagster/column_schema" in materialization.metadata}
    checks = {
        f"{e.asset_key.to_user_string()}:{e.check_name}": {
            "passed": e.passed,
            "severity": e.severity.value,
            "words": e.description,
            "metadata": {k: v.value for k, v in e.metadata.items()},
        }
        for e in result.get_asset_check_evaluations()
    }
    failed: dict[str, str] = {}
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            told = data.user_failure_data
            failed[str(event.step_key)] = str((told and told.description) or data.error)
    skipped = [str(e.step_key) for e in result.all_events if e.is_step_skipped]
    return {
        "success": result.success,
        "made": made,
        "checks": checks,
        "failed": failed,
        "skipped": skipped,
        "jvms": len(_starts),
    }


def main(path: str, asked: str, done: str) -> None:
    _count_starts()
    defs, config = load_definitions(Path(path)), load_config(Path(path))
    steps = json.loads(Path(asked).read_text())
    Path(done).write_text(json.dumps([_run(defs, config, s) for s in steps], default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
