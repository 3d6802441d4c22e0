"""An attempt: one run's try at one load, and how it is to be carried out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.ledger import Load
from mirrorlake.sources.mysql.changes.open_writes import NOTHING_OPEN, OpenWrites
from mirrorlake.table.continuity import Continuity
from mirrorlake.table.progress import OnProgress
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class LoadTerms:
    """What planning saw of the server, and what the caller decided.

    Attributes:
        server: the server that the load was planned on, and that must answer every chunk; '' for
            any.
        accept_smaller: whether a full copy is taken that is far smaller than the last one.
        open_writes: what was open on the server before the first read, and commits later.
        clock_ahead: how far the server's clock was ahead of this machine's then.
        shown: up to where (UTC) the load's reads show all that was committed; None: as its chunks
            say.
        continuity: what the load is to the table's history; None: it repeats what was read, as a
            repair.
        progress: called with what has been read so far.
        complete: whether a full copy is to write every row, whatever the one before did.
        log_place: where the log was before the first read, of a table that follows it from there.
    """

    server: str = ""
    accept_smaller: bool = False
    open_writes: OpenWrites = NOTHING_OPEN
    clock_ahead: timedelta | None = None
    shown: datetime | None = None
    continuity: Continuity | None = None
    progress: OnProgress | None = None
    complete: bool = False
    log_place: str | None = None


@dataclass(frozen=True)
class Attempt:
    """One try at one load, under the table's lease.

    Attributes:
        workspace: with the table's lease.
        load: the attempt as the ledger has it, ``pending``.
        connection: a session with the source, for what the driver reads itself.
    """

    workspace: Workspace
    plan: ResolvedTable
    load: Load
    connection: Connection[Any]
