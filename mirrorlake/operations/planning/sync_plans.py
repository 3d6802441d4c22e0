"""What a sync would read of each table now, and what that is expected to take; nothing is written.

What belongs here: looking. What doesn't: syncing (`mirrorlake.operations.loading.sync`, whose
decisions these are), and figures (`mirrorlake.operations.planning.forecasts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.errors import MirrorlakeError, SourceHeld
from mirrorlake.ledger import Window
from mirrorlake.operations.loading.accept import refuse_other_server
from mirrorlake.operations.loading.next_load import find_next_load
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.stamps import DIGESTED_ROWS
from mirrorlake.operations.loading.unchanged import Look, look_at
from mirrorlake.operations.other_writers.moved_lake import find_all_moved
from mirrorlake.operations.planning.forecasts import (
    Forecast,
    forecast_fold,
    forecast_window,
    scaled,
)
from mirrorlake.sources.mysql.changes.replica import read_reach
from mirrorlake.sources.mysql.sessions.connect import read_position, rows_of, session
from mirrorlake.sources.mysql.tables import quote
from mirrorlake.table.holds import refuse_held
from mirrorlake.table.resolve import ResolvedTable, by_time
from mirrorlake.table.windows import lower_bound
from mirrorlake.workspace import Workspace

SyncWindow: TypeAlias = Literal["unchanged", "initial", "live", "full", "log", "held", "refused"]
MOST_COUNTED = 1_000_000
"""Rows of a window are counted up to this number; beyond it, it is "more than" this."""
_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class PlannedSync:
    """What a sync would do with one table.

    Attributes:
        window: the kind of window that it would read; ``unchanged``: its source shows that nothing
            moved; ``held`` or ``refused``: it would read nothing.
        since: where the window begins: a moment (UTC) or a key; None: the whole table.
        why: in a few words.
        rows: those of the window, and whether they were ``counted``; else as the server estimates,
            or None where more than a million; of a log, None.
        load, fold: what they are expected to take.
        code: the exit code of what refuses it; else 0.
    """

    table: str
    window: SyncWindow
    since: str | None = None
    why: str = ""
    rows: int | None = None
    counted: bool = False
    load: Forecast = field(default_factory=Forecast)
    fold: Forecast = field(default_factory=Forecast)
    code: int = 0


def plan_syncs(workspace: Workspace, contracts: Sequence[TableContract]) -> list[PlannedSync]:
    """What a sync of these tables would read now, in their order; and what other hands did to them,
    of which a sync says what follows.

    Raises:
        LakeError: the lake is not the one that the ledger knows, or can't be read.
        LedgerError: the ledger can't be read.
    """
    look = look_at(workspace.config, workspace.ledger, contracts, noted=False)
    moved = find_all_moved(workspace.config, workspace.ledger, contracts)
    planned: list[PlannedSync] = []
    for contract in contracts:
        one = _planned(workspace, contract, look)
        said = [one.why, *(found.said for found in moved.get(contract.name, ()))]
        planned.append(replace(one, why="; ".join(words for words in said if words)))
    return planned


def _planned(workspace: Workspace, contract: TableContract, look: Look) -> PlannedSync:
    name = contract.name
    if name in look.unchanged:
        return PlannedSync(
            name, "unchanged", why="its source shows that nothing happened",
            load=Forecast(0, 0, 0.0), fold=Forecast(0, 0, 0.0),
        )  # fmt: skip
    try:
        refuse_held(workspace.ledger, contract.source)
        source = workspace.config.sources[contract.source]
        with session(source, contract.database) as connection:
            return _looked(workspace, contract, connection, look)
    except SourceHeld as held:
        return PlannedSync(name, "held", why=held.message)
    except MirrorlakeError as error:
        return PlannedSync(name, "refused", why=str(error), code=error.exit_code)


def _looked(
    workspace: Workspace, contract: TableContract, connection: Connection[Any], look: Look
) -> PlannedSync:
    plan = resolve_table(workspace, contract, connection)
    window, why = _window(workspace, connection, plan)
    if window.kind == "log":
        why = "what its server's log has of it: how much is known once it is read"
    if contract.copies and not why:
        why = "a full copy"
        if contract.name in look.known and plan.table.estimated_rows <= DIGESTED_ROWS:
            why += "; MySQL digests its rows first: if they are those of the last, none is sent"
    rows, counted = _rows(connection, plan, window)
    ledger = workspace.ledger
    load = scaled(forecast_window(ledger.loads(plan.name), window.kind), rows)
    fold = forecast_fold(ledger.costs(plan.name, _EVER), rows)
    if counted and not rows:  # a load without rows commits nothing, and nothing is folded
        fold = Forecast(0, 0, 0.0)
    kind: Any = window.kind
    since = window.lo if window.kind in ("live", "initial") else None
    return PlannedSync(plan.name, kind, since, why, rows, counted, load, fold)


def _window(
    workspace: Workspace, connection: Connection[Any], plan: ResolvedTable
) -> tuple[Window, str]:
    """The window that a sync would read, and what requires the whole table, if anything does.

    Raises:
        MirrorlakeError: it would be refused.
    """
    bounded = by_time(plan) or plan.source.primary is not None
    reach = read_reach(connection, plan.source) if bounded else None
    seen = read_position(connection)
    refuse_other_server(workspace.ledger, connection, plan, seen.server)
    upcoming = find_next_load(connection, workspace, plan, seen.server)
    reason = upcoming.reason
    if upcoming.continuity.may_be_equal:
        reason += "; its rows are compared with the mirror's first: where they are equal, only the "
        reason += "next window is read"
    return upcoming.window(plan, seen.clock, reach.ahead if reach else None), reason


def _rows(
    connection: Connection[Any], plan: ResolvedTable, window: Window
) -> tuple[int | None, bool]:
    """How many rows a window has, and whether they were counted, by the cursor's index; of a whole
    table as the server estimates."""
    if window.kind == "log":
        return None, False
    condition = lower_bound(plan, window) if window.kind != "full" else ""
    if not condition:
        return plan.table.estimated_rows, False
    table = f"{quote(plan.table.database)}.{quote(plan.table.name)}"
    some = f"SELECT 1 FROM {table} WHERE {condition} LIMIT {MOST_COUNTED + 1}"  # noqa: S608
    (count,) = rows_of(connection, f"SELECT COUNT(*) FROM ({some}) some")[0]  # noqa: S608
    return (None, False) if count > MOST_COUNTED else (int(count), True)
