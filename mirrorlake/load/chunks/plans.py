"""The plans of a load's chunks: all that their tasks must know."""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.destinations.iceberg.model import LakeTable, arrow_schema
from mirrorlake.ledger.records import Load
from mirrorlake.load.chunks.planner import batch_rows, brings_many, equality_columns, widest_columns
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.sides.server_hashes import server_hashes
from mirrorlake.table.resolve import ResolvedTable


def chunk_plans(
    plan: ResolvedTable,
    load: Load,
    table: LakeTable,
    server: str,
    bounds: Sequence[str],
    rows: RowForm | None,
) -> list[ChunkPlan]:
    """A plan for each of these conditions, which differ in number and condition alone.

    Args:
        bounds: the conditions, in order.
        rows: the form by which the server digests the rows; None: it does not. Rows with a key
            come with their hashes, others are digested beforehand.
    """
    hashes = server_hashes(plan.table, rows, plan.key) if rows and plan.key else None
    cursor = plan.cursor.name if plan.cursor else None
    schema = arrow_schema(table.schema())
    return [
        ChunkPlan(
            source=plan.source,
            database=plan.table.database,
            table=plan.table.name,
            columns=plan.columns,
            schema=schema,
            location=table.location(),
            storage=dict(table.io.properties),
            load_id=load.load_id,
            attempt=load.attempt,
            seq=load.seq,
            number=number,
            where=where,
            day=load.window.day,
            day_column=plan.day_column,
            cursor=cursor,
            server=server,
            equality_columns=equality_columns(plan),
            batch_rows=batch_rows(plan),
            near=brings_many(plan, load.window),
            widest=widest_columns(plan, load.window),
            iceberg=table.schema().model_dump_json(),
            digest=rows.source_digest if rows and hashes is None else None,
            hashes=hashes,
        )
        for number, where in enumerate(bounds)
    ]
