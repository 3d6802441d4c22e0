"""Columns that may have got each other's names between two snapshots that landed, past a rule that
hides one of them.

A landing's schema file lists the columns in their source's order, so that one tells what MySQL
does. What columns and rows tell is in `mirrorlake.operations.schema_changes.exchanged_columns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.landing.files.columns import LandedSchema
from mirrorlake.operations.schema_changes.exchanged_columns import (
    Values,
    exchanged_between,
    lake_columns,
    same_columns,
    sample_rows,
)
from mirrorlake.operations.schema_changes.recorded_contracts import recorded_contract
from mirrorlake.serving.views import hold_view
from mirrorlake.table.columns.exchanged import exchanged_name, record_exchanged, undecided_pairs
from mirrorlake.table.columns.source_columns import recorded_columns
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def record_landed_exchanges(
    workspace: Workspace, contract: TableContract, schema: LandedSchema, frame: DataFrame
) -> None:
    """Keep the columns that may have been exchanged since the last snapshot, before another one is
    folded; a clean view that shows one stays as it is until it is made again. The caller holds the
    table's lease.

    Args:
        schema: the snapshot's columns.
        frame: its rows.
    """
    ledger, deduped = workspace.ledger, deduped_of(contract)
    before = [(one.name, one.type) for one in recorded_columns(ledger, contract)]
    recorded = recorded_contract(ledger, contract)
    now = [(one.name, one.iceberg) for one in schema.everything]
    pairs = exchanged_between(contract, before, now, recorded)
    if pairs:
        stayed = same_columns(
            pairs,
            contract.key,
            lake_columns(workspace, deduped),
            lambda columns: sample_rows(workspace, deduped, columns),
            lambda columns, keys: _rows_landed(frame, contract.key, columns, keys),
        )
        pairs = tuple(pair for pair in pairs if pair[1] not in stayed)
    record_exchanged(ledger, contract, pairs)
    undecided = undecided_pairs(ledger.definition(exchanged_name(contract)), contract)
    view = read_view(workspace.lake, clean_of(contract)) if undecided else None
    shown = {field.name.lower() for field in view.schema.fields} if view is not None else set[str]()
    if shown & {name for pair in undecided for name in pair}:
        hold_view(workspace, clean_of(contract), deduped)


def _rows_landed(
    frame: DataFrame, key: Sequence[str], columns: Sequence[str], keys: Sequence[Values]
) -> Mapping[Values, Values]:
    """What a snapshot has of these columns, by key."""
    names = {name.lower(): name for name in frame.columns}
    of_key, chosen = ([names[name.lower()] for name in some] for some in (key, columns))
    wanted = frame.sparkSession.createDataFrame([*keys], frame.select(*of_key).schema)
    rows = frame.join(wanted.distinct(), of_key, "left_semi").select(*of_key, *chosen).collect()
    return {tuple(row)[: len(key)]: tuple(row)[len(key) :] for row in rows}
