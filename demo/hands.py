"""What other hands do to the lake tables of a victim: past the engine, with no word of ours; and
what puts it right.

What belongs here: doing it, and one sync after it. What doesn't: what finds it (`demo.sabotage`).
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import make_url

from demo.faults import (
    ADDED_BY_OTHERS,
    CATALOG_SET_BACK_BY_OTHERS,
    DELETED_BY_OTHERS,
    DROPPED_BY_OTHERS,
    LOST_LEDGER,
    OLDER_LEDGER,
    PURGED_BY_OTHERS,
    RAW_ADDED_BY_OTHERS,
    RAW_DROPPED_BY_OTHERS,
    RAW_SET_BACK_BY_OTHERS,
    REPLACED_BY_OTHERS,
    SET_BACK_BY_OTHERS,
    VIEW_DROPPED_BY_OTHERS,
)
from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import roll_back
from mirrorlake.destinations.iceberg.commits.commit import BY
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.settings import activate
from mirrorlake.errors import LakeError, LedgerError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.find_tables import find_tables
from mirrorlake.operations.repairing.restore_ledger import rebuild_tables
from mirrorlake.workspace import Workspace


class _Victim(Protocol):
    """A mirrored table that is made to be damaged."""

    workspace: Workspace
    contract: TableContract
    sql: Callable[..., Any]

    @property
    def deduped(self) -> Identifier: ...


def plant_hand(victim: _Victim, name: str, row: int) -> None:
    """Do what other hands do, by the fault's name; ``row`` is deleted, or added twice."""
    lake, at = victim.workspace.lake, victim.deduped
    if name in (DROPPED_BY_OTHERS, RAW_DROPPED_BY_OTHERS):
        lake.catalog.drop_table((at if name == DROPPED_BY_OTHERS else _raw_of(victim)).path)
    elif name in (SET_BACK_BY_OTHERS, RAW_SET_BACK_BY_OTHERS):
        _set_back(victim, at if name == SET_BACK_BY_OTHERS else _raw_of(victim))
    elif name in (PURGED_BY_OTHERS, REPLACED_BY_OTHERS):
        _take_away(victim, at, purged=name == PURGED_BY_OTHERS)
    elif name == CATALOG_SET_BACK_BY_OTHERS:
        table = lake.load(at)
        change_and_sync(victim)
        if table is not None:
            lake.name_metadata(at, table.metadata_location)
    elif name in (OLDER_LEDGER, LOST_LEDGER):
        _put_ledger_back(victim, lost=name == LOST_LEDGER)
    else:
        _by_spark(victim, name, row)


def _raw_of(victim: _Victim) -> Identifier:
    version = victim.workspace.ledger.schema_versions(victim.contract.name)[-1]
    return Identifier(victim.contract.namespaces.raw, version.raw_table)


def _take_away(victim: _Victim, at: Identifier, *, purged: bool) -> None:
    """Drop a table with its files; or rename it, and have an empty one take its name."""
    catalog, table = victim.workspace.lake.catalog, victim.workspace.lake.load(at)
    if table is None:
        return
    if purged:
        catalog.drop_table(at.path)
        shutil.rmtree("/" + table.location().removeprefix("file:").lstrip("/"))
        return
    catalog.rename_table(at.path, (at.namespace, f"{at.name}_of_old"))
    location = f"{table.location()}_of_others"
    catalog.create_table(at.path, table.schema(), location=location)


def _put_ledger_back(victim: _Victim, *, lost: bool) -> None:
    """Put the ledger's copy from before a sync in its place, or none. It is a file of SQLite."""
    file = Path(str(make_url(victim.workspace.ledger.url).database))
    copy = file.with_name(f"{file.name}.older")
    with closing(sqlite3.connect(file)) as ledger, closing(sqlite3.connect(copy)) as older:
        ledger.backup(older)
    change_and_sync(victim)
    for end in ("-wal", "-shm", ""):
        file.with_name(f"{file.name}{end}").unlink(missing_ok=True)
    if lost:
        copy.unlink()
    else:
        copy.rename(file)


def _by_spark(victim: _Victim, name: str, row: int) -> None:
    at, clean = victim.deduped, Identifier(victim.contract.namespaces.clean, victim.contract.table)
    raw = _raw_of(victim)
    statements = {
        DELETED_BY_OTHERS: f"DELETE FROM {at.sql} WHERE id = {row}",  # noqa: S608
        ADDED_BY_OTHERS: f"INSERT INTO {at.sql} SELECT * FROM {at.sql} WHERE id = {row}",  # noqa: S608
        RAW_ADDED_BY_OTHERS: f"INSERT INTO {raw.sql} SELECT * FROM {raw.sql} WHERE id = {row}",  # noqa: S608
        VIEW_DROPPED_BY_OTHERS: f"DROP VIEW {clean.sql}",
    }
    session = victim.workspace.spark.get().newSession()
    session.conf.unset(f"spark.sql.iceberg.snapshot-property.{BY}")
    activate(session)
    with spark_errors(victim.contract.name):
        session.sql(statements[name])


def _set_back(victim: _Victim, at: Identifier) -> None:
    """Show the version before the newest."""
    table = victim.workspace.lake.load(at)
    shown = table.current_snapshot() if table is not None else None
    if shown is not None and shown.parent_snapshot_id is not None:
        roll_back(victim.workspace.lake, at, shown.parent_snapshot_id, shown.snapshot_id)


def change_and_sync(victim: _Victim) -> None:
    """Change a few rows in MySQL, and mirror them."""
    victim.sql(
        f"UPDATE {victim.contract.table} SET c_text = concat(c_text, 'late'), "  # noqa: S608
        "modified_at = DATE_SUB(UTC_TIMESTAMP(6), INTERVAL 5 MINUTE) WHERE id < 4"
    )
    if not victim.contract.key:
        time.sleep(2.1)  # MySQL records a table's changes in whole seconds
    sync_table(victim.workspace, victim.contract)


def heal(victim: _Victim) -> str:
    """Sync the table: what was put right. Where that is refused, take the step that it names, and
    sync again: what it was refused for."""
    workspace = victim.workspace
    config = workspace.config
    try:
        return "; ".join(sync_table(workspace, victim.contract).put_right)
    except LedgerError as error:
        refused = str(error)
        rebuild_tables(config, Ledger(config.ledger.url), config.tables)
    except LakeError as error:
        refused = str(error)
        if found := re.search(r"set its main back to version (\d+)", refused):
            table = workspace.lake.load(_raw_of(victim))
            if table is not None:
                back = table.manage_snapshots().set_current_snapshot(snapshot_id=int(found[1]))
                back.commit()
        elif "`mirrorlake lake find`" in refused:
            find_tables(config, workspace.ledger, uuid.uuid4().hex[:12])
        else:
            raise
    sync_table(workspace, victim.contract)
    return refused
