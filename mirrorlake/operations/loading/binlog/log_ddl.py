"""Statements of the log that alter tables which follow it: schema versions at their places.

Rows before a statement are loaded in the version of before, rows after it in the next one, and a
load without rows in between says from which place on. At the end of the log the table must be what
its server says: what a statement was taken for is checked there.

What belongs here: what a statement makes of a mirror. What doesn't: what it makes of a table
(`mirrorlake.sources.mysql.following.altered_in_log`), and the log's order
(`mirrorlake.operations.loading.binlog.log_stream`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError, SchemaError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.load.following.log_load import LogTerms, load_changes
from mirrorlake.load.following.log_rows import LogRows, in_mysql
from mirrorlake.operations.loading.binlog.following_table import FollowingTable
from mirrorlake.operations.loading.resolve import refuse_changes, resolve_as
from mirrorlake.operations.loading.taken_up import record_version
from mirrorlake.serving.streamed import hold_streamed
from mirrorlake.sources.mysql.binlog.log_batches import LoggedStatement
from mirrorlake.sources.mysql.binlog.statements import StatementSession
from mirrorlake.sources.mysql.ddl.altered import Surroundings
from mirrorlake.sources.mysql.ddl.surroundings import read_surroundings
from mirrorlake.sources.mysql.following.altered_in_log import AlteredInLog, alter_by_log
from mirrorlake.sources.mysql.following.log_state import LogPlace
from mirrorlake.sources.mysql.introspection.identity import read_identity
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import SourcePosition
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.columns.shape_at_place import contract_at, record_shape, same_columns
from mirrorlake.table.continuity import kept_words, meaning_of_plan, note_definition
from mirrorlake.table.log_place import refuse_unlogged
from mirrorlake.table.meaning import changes_between, strongest, words_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

_DATES: Final = frozenset(["date", "timestamp", "timestamptz"])
_STRICT: Final = 0x60_0000  # STRICT_TRANS_TABLES, STRICT_ALL_TABLES
_NO_ZEROS: Final = 0x180_0000  # NO_ZERO_IN_DATE, NO_ZERO_DATE
_INVALID_DATES: Final = 0x200_0000  # ALLOW_INVALID_DATES


class LogDdl:
    """What statements of one source's log make of mirrors."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def follow(
        self,
        workspace: Workspace,
        table: FollowingTable,
        statements: Sequence[LoggedStatement],
        place: LogPlace,
        seen: SourcePosition,
    ) -> str:
        """Take up what statements made of a table; why that is not known, '' where it was done.

        Args:
            workspace: with the table's lease.
            place: behind the last of them.

        Raises:
            SchemaError: the contract stops the table at such a change.
            MirrorlakeError: the server or the lake failed.
        """
        assert table.shape is not None  # noqa: S101 (callers have looked)
        since, before = table.shape
        shape, plan, emptied, done = before, table.plan, False, []
        filled: dict[str, str] = {}
        around = read_surroundings(self._connection, *table.name)
        for statement in statements:
            found = alter_by_log(
                shape, statement.text, statement.database, around, statement.session
            )
            if found is None:
                continue
            text = " ".join(statement.text.split())[:80]
            why = found.why or _why_other_dates(workspace.ledger, plan, around, statement.session)
            if not why:
                shape, emptied = found.table, emptied or found.emptied
                after, why = self._next_plan(workspace, table.contract, plan, found)
                if after is not None:
                    filled = _filled_by(plan, after, found, filled)
                    plan = after
            if why:
                return f"{why} ({text})"
            done.append(text)
        if not done:
            return ""
        if (filled or emptied) and (kept := kept_words(table.contract)):
            return (
                f"rows that only the mirror holds are kept ({kept}), and all changed ({done[-1]})"
            )
        shape, plan = self._as_it_is(workspace, table, shape, plan)
        record_shape(workspace.ledger, plan.name, place, shape, (since, before))
        failpoint("log.shape")
        self._take_up(workspace, table, plan, place, seen, filled, emptied=emptied)
        table.shape, table.altered = (place, shape), True
        return ""

    def _next_plan(
        self,
        workspace: Workspace,
        contract: TableContract,
        plan: ResolvedTable,
        found: AlteredInLog,
    ) -> tuple[ResolvedTable | None, str]:
        """The plan of a table after a statement; or why the mirror can't go on with it."""
        try:
            after = resolve_as(workspace, contract_at(contract, found.table), found.table)
            refuse_unlogged(after)
        except (ConfigError, SchemaError) as error:
            return None, str(error)
        newest = workspace.ledger.schema_versions(plan.name)[-1]
        if after.version not in (newest, plan.version):
            refuse_changes(workspace, after, newest)
        changes = changes_between(meaning_of_plan(plan), meaning_of_plan(after))
        if strongest(changes) != "none":
            return None, words_of(changes)
        if set(after.exchanged) - set(plan.exchanged):
            return None, "columns may have got each other's names"
        return after, _why_other_column(workspace, plan, after, found.origins)

    def _as_it_is(
        self,
        workspace: Workspace,
        table: FollowingTable,
        shape: SourceTable,
        plan: ResolvedTable,
    ) -> tuple[SourceTable, ResolvedTable]:
        """The shape and its plan in its server's own words, where it is what that has now."""
        table.held = False
        try:
            there = read_table(self._connection, *table.name)
        except SchemaError:
            return shape, plan  # it is gone by now
        if not same_columns(shape, there):
            return shape, plan
        table.held = True
        identity = read_identity(self._connection, there)
        table.continuity = replace(table.continuity, identity=identity)
        return there, resolve_as(workspace, table.contract, there)

    def _take_up(
        self,
        workspace: Workspace,
        table: FollowingTable,
        plan: ResolvedTable,
        place: LogPlace,
        seen: SourcePosition,
        filled: Mapping[str, str],
        *,
        emptied: bool,
    ) -> None:
        moved = plan.version != table.plan.version
        if moved:
            changes = plan.version.changes_from(table.plan.version, table.contract.earlier_names)
            table.changes.append(f"its schema changed in MySQL, as its log says: {changes.said}")
            hold_streamed(workspace, plan)
            record_version(workspace, self._connection, plan, held=table.held)
        if emptied:
            table.changes.append("it was truncated: a new history begins")
            hold_streamed(workspace, plan)
        note_definition(plan, workspace.ledger)
        table.plan = plan
        if moved or emptied or filled:
            self._load_nothing(workspace, table, place, seen, filled, emptied=emptied)

    def _load_nothing(
        self,
        workspace: Workspace,
        table: FollowingTable,
        place: LogPlace,
        seen: SourcePosition,
        filled: Mapping[str, str],
        *,
        emptied: bool,
    ) -> None:
        """Record by a load without rows what the table is from a place on."""
        continuity = replace(table.continuity, begins=emptied, filled=filled or None)
        terms = LogTerms(self._connection, table.plan, continuity, place, table.held)
        rows = LogRows((), place.log, table.plan.key, seen)
        load = load_changes(workspace, terms, rows)
        table.loads.append(load)
        table.seq, table.stamped = load.seq, continuity.identity
        table.noted = None  # how far it was followed stands on this load now
        failpoint("log.ddl")

    def confirm(
        self, workspace: Workspace, table: FollowingTable, place: LogPlace, seen: SourcePosition
    ) -> str:
        """See that a table that was altered, or of which that was in doubt, is what the log made of
        it; why it is not, '' where it is.

        Args:
            workspace: with the table's lease.
        """
        if not table.altered or table.shape is None:
            return table.doubt
        there = read_table(self._connection, *table.name)
        if not same_columns(table.shape[1], there):
            return "its server has other columns than its log tells"
        identity = read_identity(self._connection, there)
        record_shape(workspace.ledger, table.plan.name, table.shape[0], there)
        table.plan = resolve_as(workspace, table.contract, there)
        note_definition(table.plan, workspace.ledger)
        if table.stamped != identity:
            table.held = True
            table.continuity = replace(table.continuity, identity=identity)
            self._load_nothing(workspace, table, place, seen, {}, emptied=False)
        table.doubt = ""
        return ""


def _why_other_dates(
    ledger: Ledger, plan: ResolvedTable, around: Surroundings, session: StatementSession
) -> str:
    """Why dates may have become others by a statement that wrote a table again; '' where none has.

    Where its session is not strict, a server makes zeros then of dates that the session may not
    write: partial ones, as 2026-00-15, by its ``sql_mode``; MySQL also those that are none, as
    2026-02-31. Where it is strict, the statement fails.
    """
    mode = session.sql_mode
    takes_any = around.mariadb or mode & _INVALID_DATES
    if mode & _STRICT or (takes_any and not mode & _NO_ZEROS):
        return ""
    loads = ledger.successful_loads(plan.name, ever=True)
    receipts = [load.receipt for load in loads if load.receipt is not None]
    kept = {name for receipt in receipts for name in receipt.original_columns}
    dates = {exact.name for exact in plan.columns if exact.iceberg in _DATES}
    if not kept & dates:
        return ""
    return f"dates in column {min(kept & dates)} that are none, or partial, may be zeros now"


def _filled_by(
    before: ResolvedTable, after: ResolvedTable, found: AlteredInLog, filled: Mapping[str, str]
) -> dict[str, str]:
    """Columns of a plan that have one value in rows of versions without them, and its text: those
    that were filled just now, and those that were before and have another name.

    Args:
        filled: those of statements right before.
    """
    if found.emptied:
        return {}
    known = {**after.filled, **filled}
    loaded = {in_mysql(exact): exact.name for exact in before.columns}
    texts: dict[str, str] = {}
    for exact in after.columns:
        name = in_mysql(exact)
        was = loaded.get(found.origins.get(name) or "")
        if name in found.filled:
            texts[exact.name] = found.filled[name]
        elif was in known and (was != exact.name or was in filled):
            texts[exact.name] = known[was]
    return texts


def _why_other_column(
    workspace: Workspace,
    before: ResolvedTable,
    after: ResolvedTable,
    origins: Mapping[str, str | None],
) -> str:
    """Why what raw holds is not read as the columns that it is by now; '' where it is."""
    loaded = {in_mysql(exact): exact.name for exact in before.columns}
    there = [name for name, _ in before.version.columns]
    ledger = workspace.ledger
    held = {load.raw_table for load in ledger.successful_loads(before.name, ever=True)}
    versions = [v for v in ledger.schema_versions(before.name) if v.raw_table in held]
    earlier = [dict(version.columns) for version in versions]
    for exact in after.columns:
        origin = origins.get(in_mysql(exact), in_mysql(exact))
        was = loaded.get(origin) if origin is not None else None
        if origin is not None and was is None:
            return f"column {origin} was not loaded before"
        if after.name_in(there, exact.name) != was:
            step = f": write `renamed_from: {was}`, if the mirror is to follow it" if was else ""
            return f"column {exact.name} was {was or 'added'} before, by its log{step}"
        new = was is None or was.lower() != exact.name.lower()
        if new and any(exact.name.lower() in {n.lower() for n in names} for names in earlier):
            return f"there was another column {exact.name} before"
    return ""
