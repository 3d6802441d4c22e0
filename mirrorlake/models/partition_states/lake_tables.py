"""The lake tables of models: made, and given the columns that a model has now.

What belongs here: tables. What doesn't: their rows (`mirrorlake.models.spark.partition_rows`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import Identifier, as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.model import spark_types
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.errors import LakeError, SchemaError
from mirrorlake.merge.staging import drop_stale
from mirrorlake.models.compile.model import Model
from mirrorlake.models.external_sources.tables import OF_MODEL
from mirrorlake.models.spark_sql.columns import broken_columns
from mirrorlake.serving.next_tables import next_table
from mirrorlake.serving.views import look_at_view
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = "model "
"""How the names of what the ledger keeps of models begin; the model's own name follows."""
_PROPERTIES = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "write.parquet.compression-codec": "zstd",
    "write.distribution-mode": "none",
}


def model_table(model: Model) -> Identifier:
    """The lake table of a model."""
    return table_of_model(model.name)


def table_of_model(name: str) -> Identifier:
    """The lake table of a model of this name."""
    return Identifier(*name.split("."))


def prepare_table(workspace: Workspace, model: Model, *, rebuild: bool) -> Identifier:
    """The table that a model's rows are written to, with the columns that it has now: its own; or
    one beside it, which `show_next_table` gives its name once it is complete, where its own must be
    made again, or is a view."""
    lake, identifier = workspace.lake, model_table(model)
    columns = [(one.name, one.value.type) for one in model.fields]
    table = lake.load(identifier)
    if table is None:
        if _has_own_view(workspace, model.name):
            return _made_beside(workspace, model, identifier)
        return _made(workspace, model, identifier)
    if table.properties.get(OF_MODEL) != model.name:
        raise LakeError(
            f"{identifier} is there, and no model made it",
            next_step="Give the model another name, or drop that table",
        )
    drop_stale(lake, identifier)
    there = [(name, kind) for name, kind, _ in spark_types(table.schema())]
    by = [table.schema().find_column_name(f.source_id) for f in table.spec().fields]
    if there == columns and by == list(model.declaration.partition_by):
        return identifier
    added = [one for one in columns if one not in there]
    if by == list(model.declaration.partition_by) and _only_adds(there, columns):
        words = ", ".join(f"{as_sql_identifier(name)} {kind}" for name, kind in added)
        with spark_errors(str(identifier)):
            workspace.spark.get().sql(f"ALTER TABLE {identifier.sql} ADD COLUMNS ({words})")
        return identifier
    if table.current_snapshot() is None:
        lake.drop(identifier)
        return _made(workspace, model, identifier)
    if rebuild:
        return _made_beside(workspace, model, identifier)
    broken = broken_columns(dict(there), dict(columns))
    raise SchemaError(
        f"the table {identifier} is not as its model is now: "
        f"{', '.join(broken.values()) or 'its partitions are by other columns'}",
        table=model.name,
        next_step=f"mirrorlake run {quote(model.name)} --rebuild computes all of them again, and "
        "then shows the new table in its place",
    )


def _has_own_view(workspace: Workspace, name: str) -> bool:
    """Whether a model that is a table now was a view: readers have it until the table is there."""
    said = workspace.ledger.definition(f"{RECORDED}{name}")
    was = said is not None and json.loads(said)["materialized"] in ("view", "stream view")
    return was and look_at_view(workspace.lake, table_of_model(name)) is not None


def _made(workspace: Workspace, model: Model, identifier: Identifier) -> Identifier:
    lake = workspace.lake
    lake.make_namespace(identifier.namespace)
    _create(workspace.spark.get(), model, identifier, lake.location(model_table(model)))
    flush_commits(lake.load(identifier), None)
    return identifier


def _made_beside(workspace: Workspace, model: Model, identifier: Identifier) -> Identifier:
    return _made(workspace, model, next_table(workspace, identifier))


def _only_adds(there: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]) -> bool:
    return set(there) <= set(wanted) and not (
        {name.lower() for name, _ in there} & {n.lower() for n, k in wanted if (n, k) not in there}
    )


def _create(spark: SparkSession, model: Model, identifier: Identifier, place: str) -> None:
    columns = ", ".join(f"{as_sql_identifier(f.name)} {f.value.type}" for f in model.fields)
    by = ", ".join(map(as_sql_identifier, model.declaration.partition_by))
    properties = {**_PROPERTIES, OF_MODEL: model.name}
    words = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    with spark_errors(str(identifier)):
        spark.sql(
            f"CREATE TABLE {identifier.sql} ({columns}) USING iceberg"
            + (f" PARTITIONED BY ({by})" if by else "")
            + f" LOCATION {text_literal(place)}"
            + f" TBLPROPERTIES ({words})"
        )
