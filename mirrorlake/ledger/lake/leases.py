"""Leases: one writer per table at a time, and none that wakes up too late."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from mirrorlake.errors import LeaseHeld, LedgerError
from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.records import Lease
from mirrorlake.ledger.tables import LEASES
from mirrorlake.runtime.heartbeats import Heartbeat, beating

logger = logging.getLogger(__name__)

LEASE_TIME = timedelta(seconds=60)
_LEASE = LEASES.select().where(LEASES.c.table_name == sa.bindparam("name"))


class Leases:
    """The leases in one ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.released: set[Lease] = set()
        """Those that were given back before the block ended that holds them."""

    @contextmanager
    def hold(self, table: str, run_id: str) -> Iterator[Lease]:
        """Hold one table for writing; renewed in the background until the block ends.

        Raises:
            LeaseHeld: another live run holds it.
        """
        owner = (
            f"{_machine()}|{os.getpid()}|{_started(os.getpid())}|{run_id}|{uuid.uuid4().hex[:8]}"
        )
        lease = self._database.again(lambda: self._take(table, owner))
        stop = threading.Event()
        renewer = threading.Thread(target=self._renew, args=(lease, stop), daemon=True)
        renewer.start()
        seconds = LEASE_TIME.total_seconds()
        given = {"url": self._database.url, "table": table, "token": lease.token}
        beat = Heartbeat(__name__, "renew", {**given, "seconds": seconds}, seconds / 4)
        try:
            with beating(beat):
                yield lease
        finally:
            stop.set()
            renewer.join()
            if lease in self.released:
                self.released.remove(lease)
            else:
                self._database.again(lambda: self.release(lease))

    def _take(self, table: str, owner: str) -> Lease:
        try:
            with self._database.begin() as connection:
                row = connection.execute(_LEASE, {"name": table}).first()
                now = self._database.now(connection)
                if row is None:
                    connection.execute(
                        LEASES.insert().values(
                            table_name=table, token=1, owner=owner, expires_at=now + LEASE_TIME
                        )
                    )
                    return Lease(table, owner, 1)
                if _may_live(row, now):
                    raise self._held(table, row.owner, row.expires_at)
                taken = connection.execute(
                    LEASES.update()
                    .where(LEASES.c.table_name == table, LEASES.c.token == row.token)
                    .values(token=row.token + 1, owner=owner, expires_at=now + LEASE_TIME)
                )
                # Another may have taken it between the two statements: its token is higher.
                if taken.rowcount != 1:
                    raise self._held(table, row.owner, row.expires_at)
                return Lease(table, owner, row.token + 1)
        except IntegrityError as error:
            raise self._held(table, "another run", utc_now() + LEASE_TIME) from error

    @staticmethod
    def _held(table: str, owner: str, until: datetime) -> LeaseHeld:
        parts = owner.split("|")
        who = f"run {parts[3]} (process {parts[1]})" if len(parts) == 5 else owner or "another run"
        return LeaseHeld(
            f"table {table} is being written by {who}, whose lease runs until {until:%H:%M:%S} UTC",
            table=table,
            next_step="Try again when it is done; a dead run's lease ends by itself",
            retryable=True,
        )

    def _renew(self, lease: Lease, stop: threading.Event) -> None:
        while not stop.wait(LEASE_TIME.total_seconds() / 4):
            try:
                self.renew(lease.table, lease.token, LEASE_TIME)
            except LedgerError as error:
                # The lease may still be ours: `check_lease` decides before anything is committed.
                logger.warning("table %s: the lease could not be renewed: %s", lease.table, error)

    def renew(self, table: str, token: int, time: timedelta) -> None:
        """Let a lease run for so long from now, if nobody took the table over."""
        with self._database.begin() as connection:
            connection.execute(
                LEASES.update()
                .where(LEASES.c.table_name == table, LEASES.c.token == token)
                .values(expires_at=self._database.now(connection) + time)
            )

    def release(self, lease: Lease) -> None:
        """Let whoever wants it have the table."""
        with self._database.begin() as connection:
            connection.execute(
                LEASES.update()
                .where(LEASES.c.table_name == lease.table, LEASES.c.token == lease.token)
                .values(owner="", expires_at=self._database.now(connection))
            )

    @contextmanager
    def hold_all(self, tables: Iterable[str], run_id: str) -> Iterator[None]:
        """Hold these tables, and every other that was ever held.

        Raises:
            LeaseHeld: another live run holds one of them; none is held.
        """
        with self._database.read() as connection:
            known = connection.scalars(sa.select(LEASES.c.table_name)).all()
        with ExitStack() as held:
            for table in sorted({*tables, *known}):
                held.enter_context(self.hold(table, run_id))
            yield

    def is_held(self, table: str) -> bool:
        """Whether the lease has an owner that may still live."""
        with self._database.read() as connection:
            row = connection.execute(_LEASE, {"name": table}).first()
            now = self._database.now(connection)
        return row is not None and _may_live(row, now)

    def times_taken(self, table: str) -> int:
        """How often the lease was taken: with each time its token is one higher."""
        with self._database.read() as connection:
            row = connection.execute(_LEASE, {"name": table}).first()
        return row.token if row is not None else 0

    def refuse_any(self) -> None:
        """See that no table is held.

        Raises:
            LeaseHeld: one is, by a run that may still live.
        """
        with self._database.read() as connection:
            rows = connection.execute(LEASES.select().order_by(LEASES.c.table_name)).all()
            now = self._database.now(connection)
        for row in rows:
            if _may_live(row, now):
                raise self._held(row.table_name, row.owner, row.expires_at)

    def abandoned(self) -> list[str]:
        """The tables whose lease was left by a run that ended: it expired, or its process on this
        machine is gone. The next run takes them without waiting."""
        with self._database.read() as connection:
            rows = connection.execute(LEASES.select().order_by(LEASES.c.table_name)).all()
            now = self._database.now(connection)
        return [row.table_name for row in rows if row.owner and not _may_live(row, now)]

    def release_abandoned(self, table: str) -> bool:
        """Take away the lease of a run that ended; false where one that may live has the table."""
        with self._database.begin() as connection:
            row = connection.execute(_LEASE, {"name": table}).first()
            now = self._database.now(connection)
            if row is None or not row.owner or _may_live(row, now):
                return False
            # A new token: a run that held it, and was only stalled, finds that it is gone.
            freed = connection.execute(
                LEASES.update()
                .where(LEASES.c.table_name == table, LEASES.c.token == row.token)
                .values(token=row.token + 1, owner="", expires_at=now)
            )
            return freed.rowcount == 1

    def check(self, lease: Lease) -> None:
        """See that nobody took the table over while this run was stalled.

        Raises:
            LeaseHeld: the token has moved on; nothing may be committed.
        """
        with self._database.read() as connection:
            row = connection.execute(_LEASE, {"name": lease.table}).first()
        if row is None or row.token != lease.token or row.owner != lease.owner:
            raise self._held(
                lease.table, row.owner if row else "nobody", row.expires_at if row else utc_now()
            )


def renew(url: str, table: str, token: int, seconds: float) -> None:
    """Renew a lease of another process, which can't: see `mirrorlake.runtime.heartbeats`."""
    Leases(Database(url)).renew(table, token, timedelta(seconds=seconds))


def _machine() -> str:
    """This machine's boot and process space: a process id means something only inside it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:13]
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks: a process id may be given out again."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        # A zombie has ended; its parent has not read its exit code yet.
        return "" if fields[0] in ("Z", "X") else fields[19]
    except (OSError, IndexError):
        return ""


def _may_live(row: sa.Row[Any], now: datetime) -> bool:
    """Whether a lease has an owner that may still live."""
    return bool(row.expires_at > now and row.owner and _alive(row.owner))


def _alive(owner: str) -> bool:
    """Whether a lease's owner may still live: certain only for a process of this machine."""
    machine, pid, started, *_ = owner.split("|")
    if machine != _machine() or not started:
        return True
    return _started(int(pid)) == started
