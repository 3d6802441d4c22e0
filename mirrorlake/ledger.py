"""The ledger: what was asked of every table, what each load saw, and who holds which table.

One row per window, one per attempt of its load, one lease per table. The ledger is written *around*
every step on the lake, never in one transaction with it: a load that died is settled by looking
for its load id in the table's history (DESIGN: the commit protocol). All times are UTC.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from mirrorlake.errors import LeaseHeld, LedgerError
from mirrorlake.schema import SchemaVersion

logger = logging.getLogger(__name__)

LEDGER_VERSION = 1
LEASE_TIME = timedelta(seconds=60)

_metadata = sa.MetaData()
_meta = sa.Table(
    "mirrorlake_meta",
    _metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.String(255), nullable=False),
)
_leases = sa.Table(
    "leases",
    _metadata,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("expires_at", sa.DateTime, nullable=False),
)
_windows = sa.Table(
    "windows",
    _metadata,
    sa.Column("load_id", sa.String(36), primary_key=True),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("lo", sa.String(64)),
    sa.Column("hi", sa.String(64)),
    sa.Column("day", sa.Date),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False),
)
# SQLite alone needs the type INTEGER for a key that counts by itself.
_counter = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_loads = sa.Table(
    "loads",
    _metadata,
    sa.Column("seq", _counter, primary_key=True, autoincrement=True),
    sa.Column(
        "load_id", sa.String(36), sa.ForeignKey("windows.load_id"), nullable=False, index=True
    ),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("run_id", sa.String(64), nullable=False),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("raw_table", sa.String(255), nullable=False),
    sa.Column("parent_snapshot", sa.BigInteger),
    sa.Column("snapshot_id", sa.BigInteger),
    sa.Column("started_at", sa.DateTime, nullable=False),
    sa.Column("finished_at", sa.DateTime),
    sa.Column("receipt", sa.Text),
    sa.Column("error", sa.Text),
    sa.UniqueConstraint("load_id", "attempt"),
    # A number is never given out twice, not even after its row was deleted.
    sqlite_autoincrement=True,
)
_folds = sa.Table(
    "folds",
    _metadata,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("layer", sa.String(16), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("folded_at", sa.DateTime, nullable=False),
)
_views = sa.Table(
    "views",
    _metadata,
    sa.Column("view_name", sa.String(255), primary_key=True),
    sa.Column("definition", sa.Text, nullable=False),
)
_versions = sa.Table(
    "schema_versions",
    _metadata,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("raw_table", sa.String(255), nullable=False),
    sa.Column("columns", sa.Text, nullable=False),
    sa.Column("first_seen", sa.DateTime, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
)


@dataclass(frozen=True)
class Receipt:
    """What a load saw. It stands in the ledger and in the commit's own summary, so either can be
    lost.

    Attributes:
        rows: rows read and committed.
        bytes: bytes of the data files.
        files: how many data files.
        digest: order-free 64-bit checksum of the rows, in hexadecimal.
        moment: the source's UTC clock just before the earliest of the load's reads: the next window
            starts before it.
        hi: where the window ends by what the load saw: the moment for a time cursor (in the
        cursor's
            zone), the highest key for a key cursor; None while there is none.
        server: the identity of the server that answered.
        position: its GTID position before the earliest read.
        originals: values kept as original text.
        future: rows whose cursor lies after the source's clock.
        query_seconds: the longest single query.
    """

    rows: int
    bytes: int
    files: int
    digest: str
    moment: str
    hi: str | None
    server: str
    position: str
    originals: int
    future: int
    query_seconds: float

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Receipt:
        return Receipt(**json.loads(text))


@dataclass(frozen=True)
class Window:
    """A half-open range [lo, hi) of a table's cursor, or the whole table (``full``), as texts.

    ``kind`` is ``initial``, ``live`` or ``full``. ``hi`` is None while the window is open above:
    it is set from the receipt when the load succeeds.
    """

    kind: str
    lo: str | None
    hi: str | None
    day: date


@dataclass(frozen=True)
class Load:
    """One attempt of one window's load. ``seq`` orders observations: a later read has a higher
    one."""

    seq: int
    load_id: str
    attempt: int
    table: str
    state: str
    raw_table: str
    window: Window
    parent_snapshot: int | None
    snapshot_id: int | None
    started_at: datetime
    finished_at: datetime | None
    receipt: Receipt | None
    error: str | None


@dataclass(frozen=True)
class Lease:
    """The right to write one table until it expires; ``token`` grows with every owner (fencing)."""

    table: str
    owner: str
    token: int


class Ledger:
    """A connection to the ledger's database; safe to share between threads.

    Raises:
        LedgerError: the database can't be opened, is locked for longer than ``wait``, or was
        written by
            a newer Mirrorlake.
    """

    def __init__(self, url: str, wait: timedelta = timedelta(seconds=30)) -> None:
        self._url = sa.make_url(url)
        self._wait = wait
        if self._url.get_backend_name() == "sqlite":
            self._engine = self._open_sqlite()
        else:
            self._engine = sa.create_engine(self._url, pool_pre_ping=True)
        with self._begin() as connection:
            _metadata.create_all(connection)
            self._check_version(connection)

    def _open_sqlite(self) -> sa.Engine:
        if self._url.database and self._url.database != ":memory:":
            folder = Path(self._url.database).parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LedgerError(
                    f"the ledger's folder {folder} can't be made: {error.strerror}",
                    next_step="Make it writable, or set ledger.url to another place",
                ) from error
        engine = sa.create_engine(self._url, connect_args={"timeout": self._wait.total_seconds()})

        # sqlite3 begins transactions late by itself: two readers that both go on to write would
        # fail.
        @event.listens_for(engine, "connect")
        def _connect(connection: Any, _: Any) -> None:
            connection.isolation_level = None

        @event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        return engine

    def _check_version(self, connection: sa.Connection) -> None:
        found = connection.scalar(sa.select(_meta.c.value).where(_meta.c.name == "version"))
        if found is None:
            connection.execute(_meta.insert().values(name="version", value=str(LEDGER_VERSION)))
        elif int(found) > LEDGER_VERSION:
            raise LedgerError(
                f"the ledger has version {found}; this Mirrorlake knows {LEDGER_VERSION}",
                next_step="Install the Mirrorlake that wrote it, or a newer one",
            )

    @contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        where = self._url.render_as_string(hide_password=True)
        try:
            with self._engine.begin() as connection:
                yield connection
        except OperationalError as error:
            raise LedgerError(
                f"the ledger {where} could not be used: {error.orig} "
                f"(waited up to {self._wait.total_seconds():g} s)",
                next_step="See that no other program holds it, and that the disk has room",
                retryable=True,
            ) from error
        except IntegrityError:
            raise
        except (DBAPIError, SQLAlchemyError) as error:
            raise LedgerError(
                f"the ledger {where} is not usable: {error}".split("\n", 1)[0],
                next_step="If the file is damaged, move it away: loads are found again in the lake",
            ) from error

    # --- leases -------------------------------------------------------------------------------

    @contextmanager
    def lease(self, table: str, run_id: str) -> Iterator[Lease]:
        """Hold one table for writing; renewed in the background until the block ends.

        Raises:
            LeaseHeld: another live run holds it.
        """
        owner = (
            f"{_machine()}|{os.getpid()}|{_started(os.getpid())}|{run_id}|{uuid.uuid4().hex[:8]}"
        )
        lease = self._take(table, owner)
        stop = threading.Event()
        renewer = threading.Thread(target=self._renew, args=(lease, stop), daemon=True)
        renewer.start()
        try:
            yield lease
        finally:
            stop.set()
            renewer.join()
            self._release(lease)

    def _take(self, table: str, owner: str) -> Lease:
        now = _now()
        try:
            with self._begin() as connection:
                row = connection.execute(
                    _leases.select().where(_leases.c.table_name == table)
                ).first()
                if row is None:
                    connection.execute(
                        _leases.insert().values(
                            table_name=table, token=1, owner=owner, expires_at=now + LEASE_TIME
                        )
                    )
                    return Lease(table, owner, 1)
                if row.expires_at > now and row.owner and _alive(row.owner):
                    raise self._held(table, row.owner, row.expires_at)
                taken = connection.execute(
                    _leases.update()
                    .where(_leases.c.table_name == table, _leases.c.token == row.token)
                    .values(token=row.token + 1, owner=owner, expires_at=now + LEASE_TIME)
                )
                if taken.rowcount != 1:
                    raise self._held(table, row.owner, row.expires_at)
                return Lease(table, owner, row.token + 1)
        except IntegrityError as error:
            raise self._held(table, "another run", now + LEASE_TIME) from error

    @staticmethod
    def _held(table: str, owner: str, until: datetime) -> LeaseHeld:
        parts = owner.split("|")
        who = f"run {parts[3]} (process {parts[1]})" if len(parts) == 5 else owner
        return LeaseHeld(
            f"table {table} is being written by {who}, whose lease runs until {until:%H:%M:%S} UTC",
            table=table,
            next_step="Try again when it is done; a dead run's lease ends by itself",
            retryable=True,
        )

    def _renew(self, lease: Lease, stop: threading.Event) -> None:
        while not stop.wait(LEASE_TIME.total_seconds() / 4):
            try:
                with self._begin() as connection:
                    connection.execute(
                        _leases.update()
                        .where(_leases.c.table_name == lease.table, _leases.c.token == lease.token)
                        .values(expires_at=_now() + LEASE_TIME)
                    )
            except LedgerError as error:
                # The lease may still be ours: `check_lease` decides before anything is committed.
                logger.warning("table %s: the lease could not be renewed: %s", lease.table, error)

    def _release(self, lease: Lease) -> None:
        with self._begin() as connection:
            connection.execute(
                _leases.update()
                .where(_leases.c.table_name == lease.table, _leases.c.token == lease.token)
                .values(owner="", expires_at=_now())
            )

    def check_lease(self, lease: Lease) -> None:
        """See that nobody took the table over while this run was stalled.

        Raises:
            LeaseHeld: the token has moved on; nothing may be committed.
        """
        with self._begin() as connection:
            row = connection.execute(
                _leases.select().where(_leases.c.table_name == lease.table)
            ).first()
        if row is None or row.token != lease.token or row.owner != lease.owner:
            raise self._held(
                lease.table, row.owner if row else "nobody", row.expires_at if row else _now()
            )

    # --- loads --------------------------------------------------------------------------------

    def create_load(self, table: str, window: Window) -> str:
        """Write the window as ``created`` and return its load id."""
        load_id = uuid.uuid4().hex
        with self._begin() as connection:
            connection.execute(
                _windows.insert().values(
                    load_id=load_id,
                    table_name=table,
                    kind=window.kind,
                    lo=window.lo,
                    hi=window.hi,
                    day=window.day,
                    state="created",
                    created_at=_now(),
                )
            )
        return load_id

    def start_load(
        self, load_id: str, lease: Lease, run_id: str, raw_table: str, parent_snapshot: int | None
    ) -> Load:
        """Write the next attempt as ``pending``; its sequence number is taken before anything is
        read."""
        with self._begin() as connection:
            attempt = 1 + (
                connection.scalar(
                    sa.select(sa.func.max(_loads.c.attempt)).where(_loads.c.load_id == load_id)
                )
                or 0
            )
            result = connection.execute(
                _loads.insert().values(
                    load_id=load_id,
                    attempt=attempt,
                    table_name=lease.table,
                    state="pending",
                    run_id=run_id,
                    token=lease.token,
                    raw_table=raw_table,
                    parent_snapshot=parent_snapshot,
                    started_at=_now(),
                )
            )
            connection.execute(
                _windows.update().where(_windows.c.load_id == load_id).values(state="pending")
            )
            seq = result.inserted_primary_key
            return self._loads(connection, _loads.c.seq == seq[0])[0] if seq else _no_key()

    def finish_load(self, load: Load, snapshot_id: int | None, receipt: Receipt) -> None:
        """Write an attempt, found or just made in the lake, as ``success``; older failures it
        covers as ``superseded``. ``snapshot_id`` is None where there was nothing to commit."""
        with self._begin() as connection:
            connection.execute(
                _loads.update()
                .where(_loads.c.seq == load.seq)
                .values(
                    state="success",
                    snapshot_id=snapshot_id,
                    receipt=receipt.to_json(),
                    finished_at=_now(),
                    error=None,
                )
            )
            connection.execute(
                _windows.update()
                .where(_windows.c.load_id == load.load_id)
                .values(state="success", hi=receipt.hi)
            )
            # A window starts at the last success, or at the table's start: it covers every range
            # that
            # was asked, and not read, since.
            connection.execute(
                _windows.update()
                .where(
                    _windows.c.table_name == load.table,
                    _windows.c.state.in_(("created", "pending", "errored")),
                    _windows.c.load_id != load.load_id,
                )
                .values(state="superseded")
            )

    def fail_load(self, load: Load, error: str) -> None:
        """Write an attempt as ``errored`` with the reason."""
        with self._begin() as connection:
            connection.execute(
                _loads.update()
                .where(_loads.c.seq == load.seq)
                .values(state="errored", error=error[:4000], finished_at=_now())
            )
            connection.execute(
                _windows.update().where(_windows.c.load_id == load.load_id).values(state="errored")
            )

    def unsettled_loads(self, table: str) -> list[Load]:
        """Attempts not known to have succeeded since the table's last success, oldest first."""
        with self._begin() as connection:
            last = connection.scalar(
                sa.select(sa.func.max(_loads.c.seq)).where(
                    _loads.c.table_name == table, _loads.c.state == "success"
                )
            )
            return self._loads(
                connection,
                _loads.c.table_name == table,
                sa.or_(
                    _loads.c.state == "pending",
                    sa.and_(_loads.c.state == "errored", _loads.c.seq > (last or 0)),
                ),
            )

    def successful_loads(self, table: str, after_seq: int = 0) -> list[Load]:
        """Successful loads with a higher sequence number, in its order."""
        with self._begin() as connection:
            return self._loads(
                connection,
                _loads.c.table_name == table,
                _loads.c.state == "success",
                _loads.c.seq > after_seq,
            )

    def last_load(self, table: str, state: str | None = None) -> Load | None:
        """The newest attempt, of any state or of one."""
        with self._begin() as connection:
            where = [_loads.c.table_name == table, *([_loads.c.state == state] if state else [])]
            seq = connection.scalar(sa.select(sa.func.max(_loads.c.seq)).where(*where))
            return self._loads(connection, _loads.c.seq == seq)[0] if seq else None

    @staticmethod
    def _loads(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> list[Load]:
        joined = _loads.join(_windows, _loads.c.load_id == _windows.c.load_id)
        query = (
            sa.select(_loads, _windows.c.kind, _windows.c.lo, _windows.c.hi, _windows.c.day)
            .select_from(joined)
            .where(*where)
            .order_by(_loads.c.seq)
        )
        return [_load(dict(row)) for row in connection.execute(query).mappings()]

    # --- folds and schema versions --------------------------------------------------------------

    def folded_loads(self, table: str, layer: str) -> set[int]:
        """The sequence numbers of the loads that a layer holds."""
        with self._begin() as connection:
            return set(
                connection.scalars(
                    sa.select(_folds.c.seq).where(
                        _folds.c.table_name == table, _folds.c.layer == layer
                    )
                )
            )

    def record_folds(self, table: str, layer: str, seqs: Iterable[int]) -> None:
        """The layer now holds these loads."""
        known = self.folded_loads(table, layer)
        rows = [
            {"table_name": table, "layer": layer, "seq": seq, "folded_at": _now()}
            for seq in sorted(set(seqs) - known)
        ]
        if rows:
            with self._begin() as connection:
                connection.execute(_folds.insert(), rows)

    def definition(self, name: str) -> str | None:
        """The definition that a view or clean table was last made with, or None."""
        with self._begin() as connection:
            return connection.scalar(
                sa.select(_views.c.definition).where(_views.c.view_name == name)
            )

    def record_definition(self, name: str, definition: str) -> None:
        """A view or clean table now has this definition."""
        with self._begin() as connection:
            connection.execute(_views.delete().where(_views.c.view_name == name))
            connection.execute(_views.insert().values(view_name=name, definition=definition))

    def forget_definition(self, name: str) -> None:
        """A view or clean table is no more."""
        with self._begin() as connection:
            connection.execute(_views.delete().where(_views.c.view_name == name))

    def schema_versions(self, table: str) -> list[SchemaVersion]:
        """The versions seen of a table, oldest first."""
        query = (
            sa.select(_versions.c.columns, _versions.c.raw_table, _versions.c.hash)
            .where(_versions.c.table_name == table)
            .order_by(_versions.c.number)
        )
        with self._begin() as connection:
            found = connection.execute(query).all()
        name = table.split(".", 2)[2]
        return [SchemaVersion(name, tuple((n, t) for n, t in json.loads(c))) for c, _, _ in found]

    def record_schema_version(self, table: str, version: SchemaVersion) -> None:
        """Write a version that was seen for the first time, or that came back, as the newest."""
        where = sa.and_(_versions.c.table_name == table, _versions.c.hash == version.hash)
        with self._begin() as connection:
            newest = connection.scalar(
                sa.select(sa.func.max(_versions.c.number)).where(_versions.c.table_name == table)
            )
            connection.execute(_versions.delete().where(where))
            connection.execute(
                _versions.insert().values(
                    table_name=table,
                    hash=version.hash,
                    raw_table=version.raw_table,
                    columns=json.dumps(version.columns, ensure_ascii=False),
                    first_seen=_now(),
                    number=(newest or 0) + 1,
                )
            )


def _load(row: Mapping[str, Any]) -> Load:
    return Load(
        seq=row["seq"],
        load_id=row["load_id"],
        attempt=row["attempt"],
        table=row["table_name"],
        state=row["state"],
        raw_table=row["raw_table"],
        window=Window(row["kind"], row["lo"], row["hi"], row["day"]),
        parent_snapshot=row["parent_snapshot"],
        snapshot_id=row["snapshot_id"],
        started_at=row["started_at"].replace(tzinfo=UTC),
        finished_at=row["finished_at"].replace(tzinfo=UTC) if row["finished_at"] else None,
        receipt=Receipt.from_json(row["receipt"]) if row["receipt"] else None,
        error=row["error"],
    )


def _no_key() -> Load:
    raise LedgerError("the ledger's database gave no sequence number")


def _now() -> datetime:
    # Stored without a zone: not every database keeps one; every time in the ledger is UTC.
    return datetime.now(UTC).replace(tzinfo=None)


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
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def _alive(owner: str) -> bool:
    """Whether a lease's owner may still live: certain only for a process of this machine."""
    machine, pid, started, *_ = owner.split("|")
    if machine != _machine() or not started:
        return True
    return _started(int(pid)) == started
