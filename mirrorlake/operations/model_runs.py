"""Models are computed: one partition after another, each in one commit of its table.

A partition's rows are written to a branch, and published by moving main: readers see
the old rows or the new ones. The commit says what it computed, and from what; a run that dies
before it is published leaves nothing that anybody sees, one that dies after it is found by the
commit.

What belongs here: tables of models, and their partitions. What doesn't: which are due
(`mirrorlake.operations.model_states`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mirrorlake.destinations.base import CATALOG, Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.durable import flush_commits
from mirrorlake.destinations.iceberg.model import spark_types
from mirrorlake.destinations.iceberg.session_settings import activate
from mirrorlake.destinations.iceberg.spark_errors import spark_errors
from mirrorlake.errors import LakeError, ModelError, SchemaError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger.model_partitions import ModelPartition
from mirrorlake.merge.staging import branch_sql, drop_stale, new_branch
from mirrorlake.models.binding import bound_sql, literal
from mirrorlake.models.project import Model, ScopeValues
from mirrorlake.operations.model_plans import broken_columns, record_model
from mirrorlake.operations.model_states import PARTITION, States, model_table, recorded_by
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF_MODEL = "mirrorlake.model"
"""The property of a table that says which model made it."""
_PROPERTIES = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "write.parquet.compression-codec": "zstd",
    "write.distribution-mode": "none",
}
OnPartition = Callable[[ModelPartition], None]


@dataclass(frozen=True)
class ModelRun:
    """What a run did of one model.

    Attributes:
        computed: the partitions that it computed, in order.
        left: how many needed nothing.
    """

    model: str
    computed: tuple[ModelPartition, ...]
    left: int


def run_model(
    workspace: Workspace,
    states: States,
    model: Model,
    scopes: Sequence[ScopeValues],
    *,
    again: bool = False,
    rebuild: bool = False,
    watch: OnPartition | None = None,
) -> ModelRun:
    """Compute the partitions of a model that are missing or stale.

    Args:
        again: compute the others, too.
        rebuild: drop the table first, if its columns are not the model's.

    Raises:
        ModelError: a partition reads others that are not computed, or the query does not give what
            was inferred of it: nothing of that partition is visible.
        SchemaError: the table has other columns than the model, and rows by them.
        LeaseHeld: another run computes the model.
        LakeError, LedgerError, MachineError
    """
    with workspace.ledger.lease(f"model {model.name}", workspace.run_id) as lease:
        own = replace(workspace, lease=lease)
        if model.declaration.materialized == "view":
            return _run_view(own, states, model, again=again, watch=watch)
        done: list[ModelPartition] = []
        left = 0
        ready = False
        for scope in scopes:
            state = states.of(model, scope)
            if state.word == "computed" and not again:
                left += 1
                continue
            if state.waits:
                above = state.waits[0].split(" ")[0]
                raise ModelError(
                    f"{model.name} {state.key}: it reads {', '.join(state.waits[:3])}"
                    f"{' …' if len(state.waits) > 3 else ''}, not computed yet",
                    next_step=f"mirrorlake run {above}, or --upstream",
                )
            if not ready:
                _prepare(own, model, rebuild=rebuild)
                ready = True
            found = _compute(own, states, model, scope)
            if not done:
                record_model(own.ledger, model)
            states.forget(model, state.key)
            done.append(found)
            if watch is not None:
                watch(found)
    return ModelRun(model.name, tuple(done), left)


# --- tables ---------------------------------------------------------------------------------------


def _prepare(workspace: Workspace, model: Model, *, rebuild: bool) -> None:
    """The model's table with the columns that it has now."""
    lake, identifier = workspace.lake, model_table(model)
    columns = [(one.name, one.value.type) for one in model.fields]
    table = lake.load(identifier)
    if table is None:
        lake.make_namespace(identifier.namespace)
        _create(workspace.spark.get(), model, identifier)
        flush_commits(lake.load(identifier), None)
        return
    if table.properties.get(OF_MODEL) != model.name:
        raise LakeError(
            f"{identifier} is there, and no model made it",
            next_step="Give the model another name, or drop that table",
        )
    drop_stale(lake, identifier)
    there = [(name, kind) for name, kind, _ in spark_types(table.schema())]
    by = [table.schema().find_column_name(f.source_id) for f in table.spec().fields]
    if there == columns and by == list(model.declaration.partition_by):
        return
    added = [one for one in columns if one not in there]
    if by == list(model.declaration.partition_by) and _only_adds(there, columns):
        words = ", ".join(f"{as_sql_identifier(name)} {kind}" for name, kind in added)
        with spark_errors(str(identifier)):
            workspace.spark.get().sql(f"ALTER TABLE {identifier.sql} ADD COLUMNS ({words})")
        return
    if rebuild or table.current_snapshot() is None:
        lake.drop(identifier)
        _prepare(workspace, model, rebuild=False)
        return
    broken = broken_columns(dict(there), dict(columns))
    raise SchemaError(
        f"{identifier} has columns that {model.name} does not give any more, or gives otherwise: "
        f"{', '.join(broken.values()) or 'its partitions are by other columns'}",
        table=model.name,
        next_step=f"mirrorlake run {model.name} --rebuild makes the table again, without a "
        "partition until each is computed",
    )


def _only_adds(there: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]) -> bool:
    return set(there) <= set(wanted) and not (
        {name.lower() for name, _ in there} & {n.lower() for n, k in wanted if (n, k) not in there}
    )


def _create(spark: SparkSession, model: Model, identifier: Identifier) -> None:
    columns = ", ".join(f"{as_sql_identifier(f.name)} {f.value.type}" for f in model.fields)
    by = ", ".join(map(as_sql_identifier, model.declaration.partition_by))
    properties = {**_PROPERTIES, OF_MODEL: model.name}
    words = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    with spark_errors(str(identifier)):
        spark.sql(
            f"CREATE TABLE {identifier.sql} ({columns}) USING iceberg"
            + (f" PARTITIONED BY ({by})" if by else "")
            + f" TBLPROPERTIES ({words})"
        )


# --- partitions -----------------------------------------------------------------------------------


def _compute(
    workspace: Workspace, states: States, model: Model, scope: ScopeValues
) -> ModelPartition:
    """One partition, in one commit."""
    begun = time.monotonic()
    identifier = model_table(model)
    # Taken before the query: what moves meanwhile makes the partition stale, never wrongly good.
    inputs, _ = states.inputs(model, scope)
    lake, spark = workspace.lake, workspace.spark.get()
    rows = _rows(spark, model, scope)
    head, branch = lake.head(identifier), new_branch()
    if head is None:
        lake.begin_branch(identifier, branch)
    else:
        lake.create_branch(identifier, branch, head)
    said = {
        "key": model.key_of(scope),
        "fingerprint": model.fingerprint,
        "inputs": inputs,
        "run": workspace.run_id,
    }
    words = json.dumps(said)
    try:
        with spark_errors(str(identifier)):
            activate(spark)
            writer: Any = rows.writeTo(branch_sql(identifier, branch))
            writer = writer.option(f"snapshot-property.{PARTITION}", words)
            writer.overwrite(_condition(model, scope))
        failpoint("model.staged")
        flush_commits(lake.load(identifier), head, branch)
        workspace.check_lease()
        failpoint("model.before_publish")
        published = lake.publish_branch(identifier, branch, head)
    except BaseException:
        drop_stale(lake, identifier)
        raise
    failpoint("model.published")
    table = lake.load(identifier)
    commit = table.snapshot_by_id(published) if table is not None else None
    assert table is not None  # noqa: S101
    assert commit is not None  # noqa: S101
    found = replace(
        recorded_by(model, str(table.metadata.table_uuid), words, commit),
        seconds=round(time.monotonic() - begun, 3),
    )
    workspace.ledger.record_model_partition(found)
    failpoint("model.recorded")
    return found


def _rows(spark: SparkSession, model: Model, scope: ScopeValues) -> DataFrame:
    """The rows of a partition, with the columns of the table.

    Raises:
        ModelError: Spark's analyser says otherwise than what was inferred.
    """
    text = bound_sql(model.declaration.sql, model.bound, scope)
    with spark_errors(model.name):
        with _within_lake(spark):
            rows = spark.sql(text)
        given = [(name.lower(), kind) for name, kind in rows.dtypes]
    wanted = [(one.name.lower(), one.value.type) for one in model.fields][: len(given)]
    if given != wanted or len(given) + len(model.declaration.partition_by) != len(model.fields):
        other = next(
            (f"{g} where {w} was inferred" for g, w in zip(given, wanted, strict=False) if g != w),
            "",
        )
        raise ModelError(
            f"{model.declaration.path}: Spark gives other columns than were inferred: {other}",
            next_step="This is a defect of Mirrorlake's inference: CAST the column, and report it",
        )
    constants = [
        f"CAST({literal(scope[name])} AS {model.types[name].type}) AS {as_sql_identifier(name)}"
        for name in model.declaration.partition_by
    ]
    names = [as_sql_identifier(name) for name in rows.columns]
    return rows.selectExpr(*names, *constants).toDF(*(one.name for one in model.fields))


@contextmanager
def _within_lake(spark: SparkSession) -> Iterator[None]:
    """While the block runs, a name without a catalog is the lake's."""
    spark.sql(f"USE {CATALOG}")
    try:
        yield
    finally:
        spark.sql("USE spark_catalog")


def _condition(model: Model, scope: ScopeValues) -> Any:
    """The rows of a partition that are in the table already."""
    from pyspark.sql.functions import expr

    words = [
        f"{as_sql_identifier(name)} = {literal(scope[name])}"
        for name in model.declaration.partition_by
    ]
    return expr(" AND ".join(words) or "true")


# --- views ----------------------------------------------------------------------------------------


def _run_view(
    workspace: Workspace,
    states: States,
    model: Model,
    *,
    again: bool,
    watch: OnPartition | None,
) -> ModelRun:
    state = states.of(model, model.scopes[0])
    if state.record is not None and state.record.fingerprint == model.fingerprint and not again:
        return ModelRun(model.name, (), 1)
    begun = time.monotonic()
    identifier = model_table(model)
    workspace.lake.make_namespace(identifier.namespace)
    spark = workspace.spark.get()
    with spark_errors(model.name), _within_lake(spark):
        spark.sql(f"CREATE OR REPLACE VIEW {identifier.sql} AS {model.declaration.sql}")
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
    workspace.ledger.record_model_partition(found)
    record_model(workspace.ledger, model)
    states.forget(model, "")
    if watch is not None:
        watch(found)
    return ModelRun(model.name, (found,), 0)


def with_those_above(models: Mapping[str, Model], name: str) -> list[Model]:
    """A model after all that it reads, in order."""
    wanted: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in models and one not in wanted:
            wanted.add(one)
            waiting += models[one].bound.reads
    return [model for model in models.values() if model.name in wanted]
