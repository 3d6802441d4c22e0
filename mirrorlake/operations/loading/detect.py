"""Watching a source: which of its tables have moved, by one connection and without Spark.

A table's mark is COUNT, MAX and a digest over the rows from an anchor on, read through the cursor's
index. MAX alone misses updates within one second and commits that come late; the anchor stands
still between movements (a sliding one would see rows leave its range and call that a movement).
Tables of mode full have no cursor: they are due when they were never loaded, and by the daily
schedule.

What belongs here: the decision. What doesn't: starting anything, and remembering the marks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.errors import SchemaError
from mirrorlake.ledger import Ledger, Load
from mirrorlake.schema.versions import schema_version
from mirrorlake.sources.mysql.introspection.identity import read_fingerprints
from mirrorlake.sources.mysql.introspection.introspect import read_tables
from mirrorlake.sources.mysql.introspection.lake_names import in_lake
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import Column, SourceTable, quote
from mirrorlake.sources.mysql.types.registry import TIMES
from mirrorlake.table.windows import time_bound

RETRY_AFTER = timedelta(minutes=15)
"""A request whose load has not succeeded after this time is made again."""


@dataclass(frozen=True)
class Mark:
    """What was last seen of a table, and requested; times are UTC by the source's clock, ISO, no
    zone.

    Attributes:
        anchor: where the mark's range begins: a UTC time or a key, as text; None: at the first row.
        rows, high, digest: COUNT, MAX and digest over that range.
        moved_at: when the newest movement was seen.
        asked_at: when a load was last requested.
        settled: whether the load that follows a movement after overlap + settle was requested.
        terms: what of the contract the range and its anchor were chosen by.
        shape: hash of the columns that MySQL had; '' in a mark of an earlier release.
        identity: hash of what changes when the table is altered, truncated, exchanged or made again
            (`mirrorlake.sources.mysql.introspection.identity.read_fingerprints`); '' where that was
            not looked at.
        version: of the rows: another text after each change that was seen, the same while none was,
            whatever the clock says; '' in a mark of an earlier release.
    """

    anchor: str | None
    rows: int
    high: str | None
    digest: str
    moved_at: str
    asked_at: str
    settled: bool = False
    terms: str = ""
    shape: str = ""
    identity: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        """A person may have edited the cursor: a time that is not one must be noticed here.

        Raises:
            ValueError: one of the times is not a time, or has a zone.
        """
        for text in (self.moved_at, self.asked_at):
            if datetime.fromisoformat(text).tzinfo is not None:
                raise ValueError("a mark's times have no zone")


@dataclass(frozen=True)
class Moved:
    """A table whose chain is due, with the reason in a few words and the mark to remember."""

    contract: TableContract
    reason: str
    mark: Mark


@dataclass(frozen=True)
class Seen:
    """One look at a source: its clock (UTC), the tables that are due, and those that can't be
    watched; ``until``: when the first of those that were left alone will be looked at again."""

    clock: datetime
    moved: tuple[Moved, ...]
    refused: Mapping[str, str]
    until: datetime | None = None


def find_moved(
    connection: Connection[Any],
    source: SourceConfig,
    contracts: Sequence[TableContract],
    marks: Mapping[str, Mark],
    ledger: Ledger,
    changed: Collection[str] = (),
    quiet: Collection[str] = (),
) -> Seen:
    """Which of one source's tables are due, against the marks that were remembered by table name.

    Nothing is written. A table that the contract gets wrong (gone, or without its cursor) is named
    in ``refused`` and does not keep the others from being seen. Tables that are known are left
    alone for their ``every`` after the last request of a table with the same value, so that what
    moves meanwhile shares one run.

    Args:
        changed: tables whose lake tables the catalog names otherwise than after our last commits.
        quiet: tables of whose server's log there is nothing to read: see `find_quiet`.

    Raises:
        SourceError: the source could not be queried.
        LedgerError: the ledger could not be read.
    """
    clock: datetime = rows_of(connection, "SELECT UTC_TIMESTAMP(6)")[0][0]
    until = _until(contracts, marks, clock)
    contracts = [c for c in contracts if c.name not in marks or c.every not in until]
    contracts = [
        c
        for c in contracts
        if c.name not in quiet or c.name in changed or _terms_of(c) != _marked(marks, c)
    ]
    tables = _tables(connection, contracts)
    identities = _identities(connection, contracts)
    newest = ledger.newest_loads([c.name for c in contracts])
    moved: list[Moved] = []
    refused: dict[str, str] = {}
    for contract in contracts:
        try:
            table = _table(tables, contract)
            identity = identities.get((contract.database, contract.table), "")
            watched = _Watched(connection, source, contract, table, clock, identity)
            mark, last = marks.get(contract.name), newest.get(contract.name)
            found = watched.decide(mark, last, changed=contract.name in changed)
        except SchemaError as error:
            refused[contract.name] = str(error)
            continue
        if found is not None:
            moved.append(found)
    at = min(until.values()).replace(tzinfo=UTC) if until else None
    return Seen(clock.replace(tzinfo=UTC), tuple(moved), refused, at)


def _until(
    contracts: Sequence[TableContract], marks: Mapping[str, Mark], clock: datetime
) -> dict[timedelta, datetime]:
    """By their `every`, when tables are due again, where that is not now. A clock that was set back
    waits for nothing."""
    requested: dict[timedelta, datetime] = {}
    for contract in contracts:
        if (mark := marks.get(contract.name)) is not None:
            at = datetime.fromisoformat(mark.asked_at)
            requested[contract.every] = max(at, requested.get(contract.every, at))
    return {
        every: at + every for every, at in requested.items() if timedelta() <= clock - at < every
    }


def run_key(source: str, moved: Sequence[Moved]) -> str:
    """One text per set of movements: the same tick twice requests the same run."""
    marks = [
        [m.contract.name, asdict(m.mark)] for m in sorted(moved, key=lambda m: m.contract.name)
    ]
    text = json.dumps([source, marks], sort_keys=True)
    return f"{source}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class _Watched:
    """One table under watch at one moment."""

    connection: Connection[Any]
    source: SourceConfig
    contract: TableContract
    table: SourceTable
    clock: datetime
    identity: str = ""

    def decide(
        self, mark: Mark | None, last: Load | None, *, changed: bool = False
    ) -> Moved | None:
        now = self.clock.isoformat()
        if mark is None:
            return None if last and self.contract.copies else self._due("never seen", now, "")
        version = mark.version
        if other := self._why_another(mark, now):
            return other
        if changed and self._may_request_again(mark):
            words = "its lake tables are not as they were left"
            return self._due(words, mark.moved_at, version)
        if self.contract.by_log:
            # Whether anything happened says the log alone, and who follows it reads on.
            return self._due("its server's log moved", now, version)
        if self._unanswered(mark, last):
            return self._due("the last request brought no load", mark.moved_at, version)
        if self.contract.copies:
            return None
        if self.clock < datetime.fromisoformat(mark.asked_at):
            # What is written now may be stamped before the mark's range.
            return self._due("the source's clock was set back", now, version)
        if (seen := self._read(mark.anchor)) != (mark.rows, mark.high, mark.digest):
            return self._due("moved", now, _after(version, *seen))
        quiet = self.clock - datetime.fromisoformat(mark.moved_at)
        if not mark.settled and quiet >= self.contract.overlap + self.contract.settle:
            return self._due("settled", mark.moved_at, version, settled=True)
        return None

    def _why_another(self, mark: Mark, now: str) -> Moved | None:
        """That its contract or its table is not what the mark is of."""
        version = mark.version
        if mark.terms != _terms_of(self.contract):
            return self._due("its contract changed", mark.moved_at, version)
        if mark.shape not in ("", self._shape):
            # A DDL may leave every row where it was.
            return self._due("its columns changed", now, _after(version, self._shape))
        if mark.identity not in ("", self.identity):
            # Other rows may be there under the old name, with old times: the sync compares them.
            words = "it was altered, emptied or made again"
            return self._due(words, now, _after(version, self.identity))
        return None

    def _may_request_again(self, mark: Mark) -> bool:
        return self.clock - datetime.fromisoformat(mark.asked_at) >= RETRY_AFTER

    def _unanswered(self, mark: Mark, last: Load | None) -> bool:
        requested = datetime.fromisoformat(mark.asked_at)
        if not self._may_request_again(mark):
            return False
        moment = last.receipt.moment if last and last.receipt else None
        return moment is None or datetime.fromisoformat(moment) < requested

    def _due(self, reason: str, moved_at: str, version: str, *, settled: bool = False) -> Moved:
        now = self.clock.isoformat()
        mark = Mark(
            None, 0, None, "", moved_at, now, settled, _terms_of(self.contract), self._shape
        )
        mark = replace(mark, identity=self.identity, version=version or self._first_version())
        if self.contract.loads.by_windows:
            anchor = self._anchor()
            rows, high, digest = self._read(anchor)
            mark = replace(mark, anchor=anchor, rows=rows, high=high, digest=digest)
        return Moved(self.contract, reason, mark)

    def _first_version(self) -> str:
        """Of what the first look shows, wherever its range begins: two that find nothing written
        between them give the same."""
        if not self.contract.loads.by_windows:
            return "not looked at"
        high = f"SELECT CAST(MAX({self._cursor.sql}) AS CHAR) {self._from}"
        return _after("", rows_of(self.connection, high)[0][0], self._shape, self.identity)

    @property
    def _shape(self) -> str:
        """The columns that MySQL has, as a hash; of a copied table, whose copies see them, none."""
        columns = [(column.name, column.column_type) for column in self.table.columns]
        return schema_version(self.contract.table, columns).hash

    @property
    def _cursor(self) -> Column:
        return self.table.column(str(self.contract.cursor))

    @property
    def _from(self) -> str:
        return f"FROM {quote(self.table.database)}.{quote(self.table.name)}"

    def _anchor(self) -> str | None:
        """Where the next mark begins: the overlap back from the clock, or from the highest key."""
        if self._cursor.data_type in TIMES:
            return (self.clock - self.contract.overlap).isoformat()
        (high,) = rows_of(self.connection, f"SELECT MAX({self._cursor.sql}) {self._from}")[0]
        return None if high is None else str(int(high) - self.contract.overlap_keys)

    def _read(self, anchor: str | None) -> tuple[int, str | None, str]:
        """COUNT, MAX and digest of the range: its cursor and key columns, so an index answers
        alone."""
        names = dict.fromkeys(
            [self._cursor.sql, *(self.table.column(k).sql for k in self.contract.key)]
        )
        # Lengths before texts: joined texts alone would not be injective.
        parts = ", ".join(f"LENGTH({n}), ':', {n}" for n in names)
        digest = f"COALESCE(SUM(CRC32(CONCAT({parts}))), 0)"
        where = f" WHERE {self._bound(anchor)}" if anchor is not None else ""
        high = f"CAST(MAX({self._cursor.sql}) AS CHAR)"
        sql = f"SELECT COUNT(*), {high}, {digest} {self._from}{where}"
        rows, highest, crc = rows_of(self.connection, sql)[0]
        return int(rows), None if highest is None else str(highest), str(crc)

    def _bound(self, anchor: str) -> str:
        cursor = self._cursor
        if cursor.data_type in TIMES:
            return time_bound(cursor, datetime.fromisoformat(anchor), self.source.zone)
        return f"{cursor.sql} >= {int(anchor)}"


def _terms_of(contract: TableContract) -> str:
    """What a load of it means, as far as the contract says: see `mirrorlake.table.meaning`."""
    terms = (contract.mode, contract.key, contract.cursor, contract.namespaces.raw)
    return json.dumps([*terms, contract.start and contract.start.isoformat()])


def _marked(marks: Mapping[str, Mark], contract: TableContract) -> str | None:
    mark = marks.get(contract.name)
    return mark.terms if mark is not None else None


def _after(version: str, *seen: object) -> str:
    """The version after a look showed this."""
    text = json.dumps([version, *map(str, seen)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _tables(
    connection: Connection[Any], contracts: Sequence[TableContract]
) -> dict[tuple[str, str], SourceTable]:
    databases = dict.fromkeys(c.database for c in contracts if not c.copies)
    return {(t.database, t.name): t for d in databases for t in read_tables(connection, d)}


def _identities(
    connection: Connection[Any], contracts: Sequence[TableContract]
) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for database in dict.fromkeys(c.database for c in contracts if not c.copies):
        names = [c.table for c in contracts if c.database == database and not c.copies]
        for name, text in read_fingerprints(connection, database, names).items():
            found[database, name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def _table(tables: Mapping[tuple[str, str], SourceTable], contract: TableContract) -> SourceTable:
    if contract.copies:
        return SourceTable(contract.database, contract.table, "", (), (), 0, ())
    found = tables.get((contract.database, contract.table))
    if found is None:
        raise SchemaError(
            f"MySQL has no table {contract.database}.{contract.table} that this user may read",
            table=contract.name,
            next_step="Check its name and the user's SELECT privilege, or remove it from "
            "the contract",
        )
    return in_lake(found, contract)
