"""From where on a table's changes are read in its server's log, and which tables can be followed.

What belongs here: what the ledger and the table's definition say of it. What doesn't: reading the
log (`mirrorlake.operations.loading.follow_log`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from mirrorlake.errors import SchemaError
from mirrorlake.ledger.records import Load
from mirrorlake.ledger.store import Ledger
from mirrorlake.sources.mysql.following.generated_values import session_dependent
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.resolve import ResolvedTable

if TYPE_CHECKING:
    from mirrorlake.sources.mysql.following.log_state import LogPlace

_BY_SERVER: Final = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})


def place_of(ledger: Ledger, name: str, last: Load | None = None) -> LogPlace | None:
    """From where on a table's changes are not in raw; None where that is not known.

    Args:
        last: its newest load that moved it on, where that is at hand.
    """
    last = last or ledger.last_load(name, "success", moving=True)
    if last is None or last.receipt is None or last.receipt.log_place is None:
        return None
    from mirrorlake.sources.mysql.following.log_state import LogPlace

    further = ledger.log_progress(name)
    beyond = further is not None and further.seq == last.seq
    return LogPlace.parse(further.place if beyond and further else last.receipt.log_place)


def why_unlogged(table: SourceTable, read: Collection[str] | None = None) -> tuple[str, str] | None:
    """Why not all that changes a table's rows is in its server's log, with the values that a SELECT
    of ours has, and what to do about it; None where it is.

    Args:
        read: the columns that are read, as MySQL calls them; None: all.
    """
    step = "Use mode incremental or full"
    if table.engine.lower() != "innodb":
        why = f"it is a table of {table.engine}, whose rows are logged before or after they change"
        return why, f"ALTER it to ENGINE = InnoDB; or {step[0].lower()}{step[1:]}"
    if table.versioned:
        return "it is system-versioned, and its old rows are in the log as if they were new", step
    for name in session_dependent(table.columns):
        if read is None or name in read:
            why = f"its column {name} is VIRTUAL, and its expression may have another value in "
            why += "another session (by its time zone, sql_mode, …): the log has its writer's"
            step = f"leave it out (`pci: never`); or {step[0].lower()}{step[1:]}"
            return why, f"Make it STORED, or {step}"
    if table.unseen_rules:
        why = "this account can't see whether a foreign key changes its rows, which is not logged"
        return why, "Grant SELECT on the whole table, and REFERENCES in MariaDB"
    for key in table.foreign_keys:
        if _BY_SERVER & {key.on_update.upper(), key.on_delete.upper()}:
            columns = ", ".join(key.columns)
            why = f"its foreign key ({columns}) lets the server change rows by itself (CASCADE, "
            return f"{why}SET NULL), and that may not be in the log", step
    return None


def refuse_unlogged(plan: ResolvedTable, step: str = "") -> None:
    """See that whatever changes a table's rows is in its server's log, with the values that a
    SELECT of ours has.

    Args:
        step: what to do otherwise; by default what helps a table of one database.

    Raises:
        SchemaError: something is not.
    """
    read = {exact.source or exact.name for exact in plan.columns}
    if (found := why_unlogged(plan.table, read)) is not None:
        raise SchemaError(
            f"table {plan.name}: mode binlog can't follow it: {found[0]}",
            table=plan.name,
            next_step=step or found[1],
        )
