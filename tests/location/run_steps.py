"""Runs steps on one code location and writes what happened: ``config steps.json done.json``.

A step: ``tables`` (names), ``layers`` of them (all), ``day`` or ``days`` ([first, last]), ``tags`` of the run; before it ``sql``
(statements by the mirror's user), ``hold`` ([table, seconds]: another run has the table for so long)
and ``plant``, a fault and its table: in deduped ``duplicate`` a row, ``lose`` row 10, add an ``odd`` one
or ``mend`` it; ``expose`` a column in clean's view. ``proofs``: tables that are held against MySQL, or ``checks``: keys (``asset:name``).
``all checks``: the proofs too, as a run from the UI has. Or ``model``: a table that an asset of someone's own reads by the ``spark`` resource. A process of its own, as a run has: a JVM can't be shared
with other tests' sessions.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import sqlalchemy as sa
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)
from pyiceberg.catalog.sql import SqlCatalog

from dagster_mirrorlake.checks import proof_check_keys
from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.resources import failures
from dagster_mirrorlake.sensors.requests import open_copies
from dagster_mirrorlake.table import LAYERS, MirroredTable
from mirrorlake.config import Config, TableContract, load_config
from mirrorlake.destinations.iceberg.commits.commit import BY
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.ledger import Ledger
from mirrorlake.sources.mysql.sessions.connect import rows_of, session
from mirrorlake.table.lake_tables import deduped_of

PROOFS = ("exact_match", "exact_match_by_day", "intact", "matches_deduped")
_starts: list[str] = []


def _count_starts() -> None:
    start = LazySpark._start

    def counted(self: LazySpark) -> Any:
        _starts.append("jvm")
        return start(self)

    LazySpark._start = counted  # type: ignore[method-assign]


def _keep_the_jvm() -> None:
    """Each run gets a session of its own and gives it back, as ever; the JVM behind it stays, for
    a start costs as much as the run."""

    def give_back(self: LazySpark) -> None:
        self._session = None

    LazySpark.stop = give_back  # type: ignore[method-assign]


OURS = {BY: "mirrorlake"}
"""As a defect of ours would: what other hands write, the next fold puts right."""


def _plant(config: Config, plan: dict[str, str]) -> None:
    lake = Lake(config.lake)
    for fault, name in plan.items():
        contract = config.table(name)
        table = lake.load(deduped_of(contract))
        assert table is not None
        schema = table.schema().as_arrow()
        if fault == "duplicate":
            table.append(table.scan().to_arrow().slice(0, 1).cast(schema), OURS)
        elif fault == "odd":
            row = {"id": 5000, "email": "e" * 41, "modified_at": None}
            table.append(pa.Table.from_pylist([row], schema), OURS)
        elif fault == "expose":
            _expose(lake, contract)
        elif fault == "mend":
            table.delete("id = 5000", snapshot_properties=OURS)
        else:
            table.delete("id = 10", snapshot_properties=OURS)


def _expose(lake: Lake, contract: TableContract) -> None:
    """Let clean's view show the e-mail address, as a hand with Spark could."""
    assert isinstance(lake.catalog, SqlCatalog)
    find = "SELECT metadata_location FROM iceberg_tables WHERE table_name = :t AND iceberg_type = 'VIEW' AND table_namespace = :n"
    with lake.catalog.engine.connect() as connection:
        at = connection.scalar(sa.text(find), {"t": contract.table, "n": contract.namespaces.clean})
    path = Path(str(at).removeprefix("file:"))
    metadata = json.loads(path.read_bytes())
    said = metadata["versions"][-1]["representations"][0]
    said["sql"] = re.sub(r"CASE WHEN `email` IS NULL .*? END\) END AS", "`email` AS", said["sql"])
    assert "`email` AS `email`" in said["sql"]
    path.write_text(json.dumps(metadata))


def _hold(config: Config, table: str, seconds: float) -> None:
    """Another run has the table: only by its lease do we know."""
    held = threading.Event()

    def hold() -> None:
        with Ledger(config.ledger.url).lease(config.table(table).name, "another"):
            held.set()
            time.sleep(seconds)

    threading.Thread(target=hold).start()
    held.wait()


def _run(defs: dg.Definitions, config: Config, step: dict[str, Any]) -> dict[str, Any]:
    if step.get("sql"):
        with session(config.sources["s"]) as connection:
            for statement in step["sql"]:
                rows_of(connection, statement)
    if "model" in step:
        return _model(defs, config, step["model"])
    _plant(config, step.get("plant", {}))
    if "hold" in step:
        _hold(config, *step["hold"])
    if "proofs" in step:
        return _proofs(defs, config, step["proofs"])
    if "checks" in step:
        return _checks(defs, [_check_key(name) for name in step["checks"]], step.get("day"))
    tables = [MirroredTable(config.table(name)) for name in step["tables"]]
    first, last = step.get("days") or (step.get("day"), step.get("day"))
    tags = {**step.get("tags", {}), **_range(first, last)}
    _starts.clear()
    started = time.monotonic()
    with dg.DagsterInstance.ephemeral() as instance:
        for day in _days(first, last):
            open_copies(instance, tables, day)
        chosen = defs if step.get("all checks") else _without_proofs(defs)
        job = chosen.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=instance,
            asset_selection=[t.key(one) for t in tables for one in step.get("layers", LAYERS)],
            tags=tags,
            raise_on_error=False,
        )
        unanswered, hidden = _unanswered(instance, defs), _hidden(instance, defs)
    seconds = round(time.monotonic() - started, 1)
    return {**_told(result), "unanswered": unanswered, "hidden": hidden, "seconds": seconds}


def _unanswered(instance: dg.DagsterInstance, defs: dg.Definitions) -> list[list[str]]:
    """Checks by day that a run was to make and has no verdict of, with their partition: the UI calls
    them skipped. Of other checks Dagster may plan partitions too, which nobody can answer."""
    found: list[list[str]] = []
    for key in defs.resolve_asset_graph().asset_check_keys:
        for record in instance.event_log_storage.get_asset_check_execution_history(key, 1000):
            planned = record.status == AssetCheckExecutionRecordStatus.PLANNED
            if planned and key.name.endswith("_by_day"):
                found.append(
                    [f"{key.asset_key.to_user_string()}:{key.name}", str(record.partition)]
                )
    return sorted(found)


def _hidden(instance: dg.DagsterInstance, defs: dg.Definitions) -> list[list[str]]:
    """Verdicts on partitions that the UI does not show: of another materialisation than the newest."""
    keys = list(defs.resolve_asset_graph().asset_check_keys)
    found = instance.event_log_storage.get_asset_check_partition_info(keys)
    return [
        [f"{one.check_key.asset_key.to_user_string()}:{one.check_key.name}", one.partition_key]
        for one in found
        if one.partition_key
        and one.check_key.name.endswith("_by_day")
        and one.latest_execution_status != AssetCheckExecutionRecordStatus.PLANNED
        and not one.is_current
    ]


def _range(first: str | None, last: str | None) -> dict[str, str]:
    if first is None or last is None:
        return {}
    return {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}


def _days(first: str | None, last: str | None) -> list[date]:
    if first is None or last is None:
        return []
    begin, end = date.fromisoformat(first[:10]), date.fromisoformat(last[:10])
    return [begin + timedelta(days=n) for n in range((end - begin).days + 1)]


def _without_proofs(defs: dg.Definitions) -> dg.Definitions:
    """What sensors ask for: a chain's checks but the proofs."""
    checks: list[dg.AssetsDefinition] = []
    for check in defs.asset_checks or []:
        assert isinstance(check, dg.AssetChecksDefinition)
        keys = {spec.key for spec in check.check_specs if spec.name not in PROOFS}
        if keys:
            checks.append(check if keys == set(check.check_keys) else check.subset_for(set(), keys))
    return dg.Definitions(
        assets=defs.assets, asset_checks=checks, resources=defs.resources, executor=defs.executor
    )


def _proofs(defs: dg.Definitions, config: Config, tables: list[str]) -> dict[str, Any]:
    """The checks that the proof schedule asks for, of these tables."""
    tables_of = [MirroredTable(config.table(name)) for name in tables]
    return _checks(defs, [key for table in tables_of for key in proof_check_keys(table)], None)


def _check_key(name: str) -> dg.AssetCheckKey:
    asset, _, check = name.partition(":")
    return dg.AssetCheckKey(dg.AssetKey(asset.split("/")), check)


def _checks(defs: dg.Definitions, keys: list[dg.AssetCheckKey], day: str | None) -> dict[str, Any]:
    job = dg.define_asset_job("proofs", dg.AssetSelection.checks(*keys)).resolve(
        asset_graph=defs.get_repository_def().asset_graph
    )
    _starts.clear()
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(
            instance=instance,
            resources=dict(defs.resources or {}),
            raise_on_error=False,
            tags=_range(day, day),
        )
        unanswered, hidden = _unanswered(instance, defs), _hidden(instance, defs)
    return {**_told(result), "unanswered": unanswered, "hidden": hidden, "seconds": 0}


def _model(defs: dg.Definitions, config: Config, table: str) -> dict[str, Any]:
    """A model beside the chains, by the ``spark`` resource: how many rows it sees, on how many
    JVMs; and one that only names the resource."""
    rows: list[Any] = []

    @dg.asset(required_resource_keys={"spark"})
    def idle(context) -> None:
        rows.append(len(_starts))

    @dg.asset(deps=[idle], required_resource_keys={"spark", "mirrorlake"})
    def counted(context) -> None:
        spark = context.resources.spark
        rows.append(spark.spark_session.table(deduped_of(config.table(table)).sql).count())
        rows.append(spark.spark_context.defaultParallelism)
        rows.append(context.resources.mirrorlake.workspace.spark.get() is spark.spark_session)

    _starts.clear()
    models = dg.Definitions(assets=[idle, counted], resources=defs.resources)
    with dg.DagsterInstance.ephemeral() as instance:
        models.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    return {"rows": rows, "jvms": len(_starts), "seconds": 0}


def _told(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    made: dict[str, dict[str, Any]] = {}
    for event in result.get_asset_materialization_events():
        materialization = event.step_materialization_data.materialization
        name = materialization.asset_key.to_user_string()
        made.setdefault(name, {})[str(materialization.partition)] = {
            k: str(v.records) if isinstance(v, dg.TableMetadataValue) else v.value
            for k, v in materialization.metadata.items()
            if "dagster/column_" not in k
        } | {"columns": "dagster/column_schema" in materialization.metadata}
    observed: dict[str, list[dict[str, Any]]] = {}
    for event in result.all_events:
        if event.event_type_value == "ASSET_OBSERVATION":
            said = event.asset_observation_data.asset_observation
            metadata = {k: v.value for k, v in said.metadata.items() if "column" not in k}
            observed.setdefault(said.asset_key.to_user_string(), []).append(metadata)
    checks = {
        f"{e.asset_key.to_user_string()}:{e.check_name}": {
            "passed": e.passed,
            "severity": e.severity.value,
            "words": e.description,
            "metadata": {
                k: str(v.records) if isinstance(v, dg.TableMetadataValue) else v.value
                for k, v in e.metadata.items()
            },
        }
        for e in result.get_asset_check_evaluations()
    }
    days: dict[str, dict[str, bool]] = {}
    words: dict[str, dict[str, str | None]] = {}
    for e in result.get_asset_check_evaluations():
        if e.partition is not None:
            name = f"{e.asset_key.to_user_string()}:{e.check_name}"
            days.setdefault(name, {})[e.partition] = e.passed
            words.setdefault(name, {})[e.partition] = e.description
    failed: dict[str, str] = {}
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            told = data.user_failure_data
            failed[str(event.step_key)] = str((told and told.description) or data.error)
    again = [e.step_key for e in result.all_events if e.is_step_up_for_retry]
    skipped = [str(e.step_key) for e in result.all_events if e.is_step_skipped]
    return {
        "success": result.success,
        "made": made,
        "observed": observed,
        "checks": checks,
        "days": days,
        "words": words,
        "failed": failed,
        "skipped": skipped,
        "tried again": again,
        "jvms": len(_starts),
    }


def main(path: str, asked: str, done: str) -> None:
    _count_starts()
    _keep_the_jvm()
    failures.WAIT_SECONDS = 1
    defs, config = load_definitions(Path(path)), load_config(Path(path))
    steps = json.loads(Path(asked).read_text())
    told: list[dict[str, Any]] = []
    for step in steps:
        told.append(_run(defs, config, step))
        print(f"step {len(told)}: {told[-1]['seconds']} s", file=sys.stderr, flush=True)
        Path(done).write_text(json.dumps(told, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
