"""Data files of raw as their loads wrote them, and the proofs of raw and clean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.loads.load_rows import hold_load
from mirrorlake.ledger.records import Load
from mirrorlake.ledger.tables import LAYER_PROOFS, RAW_FILES

_AT_ONCE = 500
"""Names in one statement, at most: databases limit the parameters."""


@dataclass(frozen=True)
class RawFile:
    """A data file of a raw table as its load wrote it.

    Attributes:
        name: its path below the table's folder of data.
        seq: the number of the load that committed it.
        checksum: SHA-256 of its bytes, in hexadecimal.
        basis: ``load``, where its writer computed it; ``receipt``, where a later check did, and the
            load's files were those of which its receipt has a digest.
        checked_at: when (UTC) its bytes were last read and compared; None: not since it was
            written.
    """

    name: str
    raw_table: str
    seq: int
    rows: int
    bytes: int
    checksum: str
    basis: str = "load"
    checked_at: datetime | None = None


@dataclass(frozen=True)
class LayerProof:
    """The verdict on a layer that is not compared with MySQL: raw with what its loads recorded,
    clean with deduped. No values of rows.

    Attributes:
        check_id: the check of one layer.
        table: ``source.db.table``.
        digest: of the layer: for raw: row versions and its files' checksums; for clean: rows and
            the sum of their digests. No digest where not everything was read, or for a view.
        started_at, seconds: when it began (UTC), and how long it took.
        layer: ``raw`` or ``clean``; ``bigquery``, ``readers of deduped``, …: who else was compared.
        verdict: equal, different or undecided.
        words: what was found, or why it can't be decided; '' where it is equal.
        compared: what was compared, in words, with its size.
        rows: of the layer; ``digest``: of its rows or files, in hexadecimal, or ''.
        expected_rows, expected_digest: as the layer should be.
        snapshots: the versions of the lake tables that were read, by table.
        through_seq: the newest load in deduped (0: none).
        code: the version of the code that compared.
    """

    check_id: str
    table: str
    layer: str
    verdict: str
    words: str
    compared: str
    rows: int
    digest: str
    expected_rows: int
    expected_digest: str
    snapshots: str
    through_seq: int
    code: str
    started_at: datetime
    seconds: float


class Files:
    """The recorded files and the layers' proofs in one ledger; a part of `Ledger`."""

    _database: Database

    def record_written_files(self, load: Load, files: Sequence[RawFile]) -> None:
        """Write down all files that an attempt is about to commit. What was recorded for its load
        before goes: an attempt that died may have written files that this one does not have.

        Raises:
            LeaseHeld: another run has taken the load over; nothing was written.
        """
        with self._database.begin() as connection:
            hold_load(connection, load)
            mine = sa.and_(RAW_FILES.c.table_name == load.table, RAW_FILES.c.seq == load.seq)
            connection.execute(RAW_FILES.delete().where(mine))
            _record_files(connection, load.table, files)

    def record_raw_files(self, table: str, files: Sequence[RawFile]) -> None:
        """Write down files of raw; what was recorded under their names before is replaced."""
        with self._database.begin() as connection:
            _record_files(connection, table, files)

    def forget_raw_files(self, table: str, names: Iterable[str]) -> None:
        """These files were taken out of raw by a load of ours."""
        with self._database.begin() as connection:
            _forget_names(connection, table, list(names))

    def raw_files(self, table: str, seqs: Collection[int] | None = None) -> list[RawFile]:
        """The recorded files of a table, of some loads or of all, by name."""
        query = RAW_FILES.select().where(RAW_FILES.c.table_name == table)
        if seqs is not None and len(seqs) <= _AT_ONCE:
            query = query.where(RAW_FILES.c.seq.in_(sorted(seqs)))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(RAW_FILES.c.name)).all()
        return [
            RawFile(
                name=row.name,
                raw_table=row.raw_table,
                seq=row.seq,
                rows=row.row_count,
                bytes=row.bytes,
                checksum=row.checksum,
                basis=row.basis,
                checked_at=row.checked_at.replace(tzinfo=UTC) if row.checked_at else None,
            )
            for row in rows
            if seqs is None or row.seq in seqs
        ]

    def record_checked(self, table: str, names: Sequence[str]) -> None:
        """The bytes of these files were just read, and are as recorded."""
        with self._database.begin() as connection:
            now = utc_now()
            for start in range(0, len(names), _AT_ONCE):
                some = names[start : start + _AT_ONCE]
                mine = sa.and_(RAW_FILES.c.table_name == table, RAW_FILES.c.name.in_(some))
                connection.execute(RAW_FILES.update().where(mine).values(checked_at=now))

    def record_layer_proofs(self, proofs: Sequence[LayerProof]) -> None:
        """Keep the verdicts of one check."""
        rows = [
            {**asdict(p), "started_at": p.started_at.astimezone(UTC).replace(tzinfo=None)}
            for p in proofs
        ]
        for row in rows:
            row["table_name"], row["row_count"] = row.pop("table"), row.pop("rows")
        if rows:
            with self._database.begin() as connection:
                connection.execute(LAYER_PROOFS.insert(), rows)

    def different_layers(self) -> dict[str, dict[str, str]]:
        """By table: the layers that were not as they should be by the newest look at each, and what
        was found."""
        newest = sa.select(sa.func.max(LAYER_PROOFS.c.number)).group_by(
            LAYER_PROOFS.c.table_name, LAYER_PROOFS.c.layer
        )
        wanted = (LAYER_PROOFS.c.number.in_(newest), LAYER_PROOFS.c.verdict == "different")
        columns = (LAYER_PROOFS.c.table_name, LAYER_PROOFS.c.layer, LAYER_PROOFS.c.words)
        query = sa.select(*columns).where(*wanted).order_by(LAYER_PROOFS.c.number)
        found: dict[str, dict[str, str]] = {}
        with self._database.read() as connection:
            for table, layer, words in connection.execute(query):
                found.setdefault(str(table), {})[str(layer)] = str(words)
        return found

    def layer_proofs(self, table: str, *, everything: bool = False) -> list[LayerProof]:
        """The newest verdict on each layer of a table, or all of them; oldest first."""
        query = (
            LAYER_PROOFS.select()
            .where(LAYER_PROOFS.c.table_name == table)
            .order_by(LAYER_PROOFS.c.number)
        )
        with self._database.read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        for row in rows:
            row["table"], row["rows"] = row.pop("table_name"), row.pop("row_count")
            row["started_at"] = row["started_at"].replace(tzinfo=UTC)
            del row["number"]
        found = [LayerProof(**row) for row in rows]
        return found if everything else list({proof.layer: proof for proof in found}.values())


def _record_files(connection: sa.Connection, table: str, files: Sequence[RawFile]) -> None:
    rows = [
        {**vars(f), "table_name": table, "recorded_at": utc_now(), "checked_at": None}
        for f in files
    ]
    for row in rows:
        row["row_count"] = row.pop("rows")
    _forget_names(connection, table, [f.name for f in files])
    if rows:
        connection.execute(RAW_FILES.insert(), rows)


def _forget_names(connection: sa.Connection, table: str, names: Sequence[str]) -> None:
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        mine = sa.and_(RAW_FILES.c.table_name == table, RAW_FILES.c.name.in_(some))
        connection.execute(RAW_FILES.delete().where(mine))
