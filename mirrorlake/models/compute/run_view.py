"""A model that is a view: made, and recorded as computed."""

from __future__ import annotations

import time

from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import LakeError
from mirrorlake.models.changes.since_run import record_model
from mirrorlake.models.compile.model import Model
from mirrorlake.models.compute.model_run import ModelRun, OnComputed
from mirrorlake.models.ledger import ModelPartition, ModelRecords
from mirrorlake.models.partition_states.lake_tables import model_table
from mirrorlake.models.partition_states.lost_views import lost_view
from mirrorlake.models.partition_states.states import States
from mirrorlake.models.partition_states.stream_views import stream_sql
from mirrorlake.models.spark.default_catalog import within_lake
from mirrorlake.workspace import Workspace


def run_view(
    workspace: Workspace,
    states: States,
    model: Model,
    *,
    again: bool,
    watch: OnComputed | None,
) -> ModelRun:
    made, why = states.records(model).get(""), states.readings.of(model).why
    is_there = lost_view(workspace.lake, states.catalogue, model) is None
    if made is not None and made.fingerprint == model.fingerprint and is_there and not again:
        return ModelRun(model.name, (), 1, is_view=True, why_main=why)
    begun = time.monotonic()
    identifier = model_table(model)
    if workspace.lake.load(identifier) is not None:
        raise LakeError(
            f"{identifier} is a table",
            next_step="Drop it, or give the model another name: it is a view now",
        )
    sql = model.declaration.sql
    if model.declaration.materialized == "stream view":
        sql = stream_sql(workspace, states.catalogue, model)
    workspace.lake.make_namespace(identifier.namespace)
    spark = workspace.spark.get()
    with spark_errors(model.name), within_lake(spark):
        spark.sql(f"CREATE OR REPLACE VIEW {identifier.sql} AS {sql}")
    found = ModelPartition(
        model=model.name,
        key="",
        fingerprint=model.fingerprint,
        table="",
        snapshot_id=0,
        inputs={},
        rows=0,
        seconds=round(time.monotonic() - begun, 3),
        run_id=workspace.run_id,
    )
    ModelRecords(workspace.ledger).record_partitions([found])
    record_model(workspace.ledger, model)
    states.forget(model, "")
    if watch is not None:
        watch(1)
    return ModelRun(model.name, (found,), 0, is_view=True, why_main=why)
