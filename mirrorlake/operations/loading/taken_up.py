"""What the ledger keeps of a table's columns, before anything of a schema version is loaded.

What belongs here: writing it down. What doesn't: what a version is loaded from
(`mirrorlake.operations.loading.sync`, `mirrorlake.operations.loading.binlog.log_ddl`).
"""

from __future__ import annotations

import logging
from typing import Any

from pymysql.connections import Connection

from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.resolve import remember_renames
from mirrorlake.operations.schema_changes.table_shapes import ddl_name
from mirrorlake.sources.mysql.introspection.introspect import read_ddl
from mirrorlake.table.columns.exchanged import record_exchanged
from mirrorlake.table.columns.lake_names import remember_lake_names
from mirrorlake.table.columns.left_out import note_left_out
from mirrorlake.table.columns.new_columns import gone_words, remember_columns, why_held
from mirrorlake.table.columns.source_columns import record_source_columns, source_columns
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


def record_version(
    workspace: Workspace, connection: Connection[Any], plan: ResolvedTable, *, held: bool = True
) -> None:
    """Write down a schema version that is about to be loaded first.

    Args:
        held: whether it is what the server has now, which says how it is made.
    """
    ledger, table = workspace.ledger, plan.table
    ddl = read_ddl(connection, table.database, table.name) if held else None

    def record_ddl() -> None:
        if ddl is not None:
            ledger.record_definition(ddl_name(plan.name, plan.version), ddl)

    ledger.together(
        lambda: record_known(workspace, plan),
        lambda: ledger.record_schema_version(plan.name, plan.version),
        record_ddl,
    )


def record_known(workspace: Workspace, plan: ResolvedTable) -> None:
    """Write down what is known of a table's columns; nothing where that is there already."""
    ledger, contract = workspace.ledger, plan.contract
    remember_columns(ledger, workspace.lake, contract, [exact.name for exact in plan.columns])
    remember_renames(workspace, contract)
    remember_lake_names(ledger, contract)
    record_exchanged(ledger, contract, plan.exchanged)
    columns = source_columns(plan.table, plan.columns)
    record_source_columns(ledger, contract, columns, plan.table.comment)


def note_columns(ledger: Ledger, plan: ResolvedTable, *, fresh: bool) -> None:
    """Write down, and say, which columns are not read, are gone, or wait for a decision."""
    note_left_out(ledger, plan.name, plan.left_out)
    if plan.gone:
        logger.warning("table %s: %s", plan.name, gone_words(plan.gone))
    for words in why_held(ledger, plan.contract, plan.held) if fresh or plan.exchanged else ():
        logger.warning("table %s: %s", plan.name, words)
