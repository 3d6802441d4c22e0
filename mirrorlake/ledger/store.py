"""The ledger: what was requested of every table, what each load saw, and what was folded of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database, waits_for_server
from mirrorlake.ledger.lake.files import Files
from mirrorlake.ledger.lake.lake_heads import LakeHeads
from mirrorlake.ledger.lake.leases import Leases
from mirrorlake.ledger.lake.moved_days import MovedDaysRecords
from mirrorlake.ledger.loads.chunks import Chunks
from mirrorlake.ledger.loads.costs import Costs
from mirrorlake.ledger.loads.folds import Folds
from mirrorlake.ledger.loads.histories import Histories
from mirrorlake.ledger.loads.loads import Loads
from mirrorlake.ledger.loads.settlement_log import Settled
from mirrorlake.ledger.loads.tenants import Tenants
from mirrorlake.ledger.proofs.dirty import DirtyMarks
from mirrorlake.ledger.proofs.proofs import Proofs
from mirrorlake.ledger.proofs.repairs import Repairs
from mirrorlake.ledger.proofs.unproved_tables import Marks
from mirrorlake.ledger.records import Lease
from mirrorlake.ledger.reports.overview import Overview
from mirrorlake.ledger.reports.reports import Reports
from mirrorlake.ledger.reports.since import Since
from mirrorlake.ledger.sources.change_stamps import Stamps
from mirrorlake.ledger.sources.columns import Columns
from mirrorlake.ledger.sources.holds import Holds
from mirrorlake.ledger.sources.log_progress import LogPlaces


@waits_for_server
class Ledger(
    Loads,
    Chunks,
    Columns,
    Folds,
    Histories,
    Holds,
    LakeHeads,
    LogPlaces,
    Marks,
    MovedDaysRecords,
    Overview,
    Proofs,
    Repairs,
    Reports,
    Settled,
    Since,
    Costs,
    DirtyMarks,
    Files,
    Stamps,
    Tenants,
):
    """One row per window, one per attempt of its load, one lease per table.

    Raises:
        LedgerError: the database can't be opened, is locked for longer than ``wait``, or was
            written by a newer Mirrorlake.
    """

    def __init__(self, url: str, wait: timedelta = timedelta(seconds=30)) -> None:
        self.url = url
        self._database = Database(url, wait)
        self._leases = Leases(self._database)

    @property
    def database(self) -> Database:
        """Where the tables are that capabilities add."""
        return self._database

    @staticmethod
    def shown_url(url: str) -> str:
        """A ledger's URL as it may be shown: without its password."""
        return sa.make_url(url).render_as_string(hide_password=True)

    def together(self, *acts: Callable[[], object]) -> None:
        """Do several things in one transaction of the ledger: all of them, or none. Each commit of
        a database waits for its disk.

        Args:
            acts: of this ledger alone, and quick: nobody else writes to it meanwhile. They are
                called again where a server was lost.
        """
        with self._database.joined():
            for act in acts:
                act()

    def clock(self) -> datetime:
        """Now (UTC) by the ledger's clock: what it times everything by."""
        with self._database.read() as connection:
            return self._database.now(connection).replace(tzinfo=UTC)

    def lease(self, table: str, run_id: str) -> AbstractContextManager[Lease]:
        """Hold one table for writing; renewed in the background until the block ends.

        Raises:
            LeaseHeld: another live run holds it.
        """
        return self._leases.hold(table, run_id)

    def lease_all(self, tables: Iterable[str], run_id: str) -> AbstractContextManager[None]:
        """Hold these tables, and every other that was ever held: nothing writes meanwhile.

        Raises:
            LeaseHeld: another live run holds one of them; none is held.
        """
        return self._leases.hold_all(tables, run_id)

    def check_lease(self, lease: Lease) -> None:
        """See that nobody took the table over while this run was stalled.

        Raises:
            LeaseHeld: the token has moved on; nothing may be committed.
        """
        self._leases.check(lease)

    def give_back(self, lease: Lease, *acts: Callable[[], object]) -> None:
        """Do these last things with a table and give it back, as `together`, before the block ends
        that holds it."""
        self.together(*acts, lambda: self._leases.release(lease))
        self._leases.released.add(lease)

    def refuse_leases(self) -> None:
        """See that no table is held.

        Raises:
            LeaseHeld: one is, by a run that may still live.
        """
        self._leases.refuse_any()

    def is_held(self, table: str) -> bool:
        """Whether a run that may still live holds the table."""
        return self._leases.is_held(table)

    def abandoned_leases(self) -> list[str]:
        """The tables whose lease was left by a run that ended."""
        return self._leases.abandoned()

    def release_abandoned(self, table: str) -> bool:
        """Take away the lease of a run that ended; false where a run that may live has the
        table."""
        return self._leases.release_abandoned(table)

    def times_taken(self, table: str) -> int:
        """How often the table's lease was taken."""
        return self._leases.times_taken(table)
