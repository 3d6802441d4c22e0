"""Raw's data files, and what their loads recorded of them: rows, bytes and a checksum.

What belongs here: writing that record down, and holding the files against it. The checksum is of
the bytes as their writer sent them, and stands in the ledger: so a file that rotted, was replaced,
or was put into raw by somebody else can't speak for itself. A fold reads again the bytes of the
files that it is about to fold, and of no others; `prove_raw` reads those of all files.

A load of an older release, or one that a rebuilt ledger found in the lake, has no such record: its
files are *unknown*, until `prove_raw` finds their rows to be those that the load's receipt
digested.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.parquet as pq

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commit import LOAD_ID, snapshot_property
from mirrorlake.destinations.iceberg.integrity import MISSING, RAW_STEP, Damage, raw_damaged
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metrics import FileMetrics
from mirrorlake.destinations.iceberg.model import (
    LakeFile,
    LakeSnapshot,
    LakeTable,
    Storage,
    arrow_schema,
    history,
    removed_files,
)
from mirrorlake.errors import LeaseHeld
from mirrorlake.ledger import Ledger, Load, RawFile
from mirrorlake.load.digest import digest_of
from mirrorlake.schema.own_columns import DELETED, LOAD

logger = logging.getLogger(__name__)

pc: Any = _compute  # its functions are made at import: type checkers see none of them
_BLOCK = 4 * 2**20
_AT_ONCE = 4
ROUNDS = 3
"""How often raw is listed again because a load came in between."""
FOREIGN = "is in raw, and no load wrote it"
ALTERED = "has other bytes than its load wrote"
LOST = "was written by a load, and is not in raw any more"
FOREIGN_STEP = (
    "Find out who wrote into raw. A file that no load wrote is taken out in Spark: `DELETE FROM "
    "<the raw table> WHERE _file = '<the file>'`; a file that was taken out comes back by "
    "`CALL lake.system.rollback_to_snapshot`, or its days are loaded again"
)


@dataclass(frozen=True)
class RawLook:
    """What a look at a table's raw files found.

    Attributes:
        files, rows, bytes: of the files in raw, as the lake's metadata has them.
        read, read_bytes: those whose bytes were read and compared.
        unknown: files of loads that recorded no checksum, and that nothing else vouches for;
            ``unknown_loads``: how many loads.
        found: files that are not what a load recorded, and what is wrong with each.
        unsettled: whether raw holds a load that the ledger does not call a success yet.
        digest, expected: over names and checksums of the files in raw, as read and as recorded;
            '' where not all were read.
        snapshots: the heads that were looked at, by raw table.
    """

    files: int
    rows: int
    bytes: int
    read: int
    read_bytes: int
    unknown: int
    unknown_loads: int
    found: tuple[Damage, ...]
    unsettled: bool
    digest: str
    expected: str
    snapshots: Mapping[str, int | None]

    @property
    def verdict(self) -> str:
        """``equal``: every file in raw is the one that its load wrote, byte by byte."""
        if self.found:
            return "different"
        whole = self.read == self.files and not self.unknown and not self.unsettled
        return "equal" if whole else "undecided"


# --- recording ------------------------------------------------------------------------------------


def record_written(ledger: Ledger, load: Load, location: str, metrics: Mapping[str, str]) -> None:
    """Write down the files that a load is about to commit; ``metrics`` are `FileMetrics` as JSON,
    by path.

    Before the commit: a death right after it leaves no file without its record.
    """
    told = {path: FileMetrics.from_json(text) for path, text in metrics.items() if text}
    files = [
        RawFile(_name(path, location), load.raw_table, load.seq, one.rows, one.size, one.checksum)
        for path, one in told.items()
        if one.checksum
    ]
    if files:
        ledger.record_raw_files(load.table, files)


def forget_written(ledger: Ledger, load: Load, location: str, paths: Iterable[str]) -> None:
    """Forget files that were written for a load, and that it does not commit after all."""
    ledger.forget_raw_files(load.table, [_name(path, location) for path in paths])


def forget_replaced(
    ledger: Ledger, lake: Lake, load: Load, raw: Identifier, at: int | None
) -> None:
    """Forget the files that a load's commit took out of raw, before the load is a success."""
    table = lake.load(raw) if at is not None else None
    snapshot = table.snapshot_by_id(at) if table is not None and at is not None else None
    if table is None or snapshot is None or not _count(snapshot, "deleted-data-files"):
        return
    with lake.translated(raw):
        names = [_name(path, table.location()) for path in removed_files(table, snapshot)]
    ledger.forget_raw_files(load.table, names)


def _name(path: str, location: str) -> str:
    """A file's name below its table's folder of data; of a file that lies elsewhere, its path."""
    return path.removeprefix(f"{location}/data/")


def _count(snapshot: LakeSnapshot, name: str) -> int:
    return int(snapshot_property(snapshot, name) or 0)


# --- before a fold --------------------------------------------------------------------------------


def refuse_damaged(
    lake: Lake, ledger: Ledger, contract: TableContract, loads: Sequence[Load], seen: set[str]
) -> int:
    """See that the files of these loads are what the loads wrote; how many of the loads have no
    record, and so were not looked at.

    Reads the bytes of these loads' files, each once; the other files of raw are compared by name
    where the table's history has a commit that is no load's.

    Args:
        seen: names of files that were read already; those that are read now join them.

    Raises:
        LakeDamaged: a file is not what its load wrote, or no load wrote it; nothing was changed.
        LakeError: the catalog or the storage failed.
    """
    loads = [load for load in loads if load.snapshot_id is not None]
    records = ledger.raw_files(contract.name, {load.seq for load in loads})
    recorded = {record.seq for record in records}
    unknown = len({load.seq for load in loads} - recorded)
    if seen and all(record.name in seen for record in records):
        return unknown  # deduped's fold has just looked
    tables: dict[str, LakeTable] = {}
    for name in dict.fromkeys(load.raw_table for load in loads):
        table = lake.load(Identifier(contract.namespaces.raw, name))
        if table is not None:
            tables[name] = table
    for table in tables.values():
        # All snapshots, not main's line of them: that is a search for each one's parent.
        if any(_is_foreign(snapshot) for snapshot in table.snapshots()):
            _refuse_foreign(lake, ledger, contract)
            break
    waiting = [r for r in records if r.name not in seen and r.raw_table in tables]
    for found in _compare(lake, tables, waiting):
        if found is not None and _is_live(lake, tables, found.path):
            raise raw_damaged(contract, found, RAW_STEP)
    seen.update(record.name for record in waiting)
    if unknown:
        logger.info(
            "table %s: %d loads recorded no checksums: their files are folded unread; "
            "`mirrorlake check` looks at them",
            *(contract.name, unknown),
        )
    return unknown


def _is_foreign(snapshot: LakeSnapshot) -> bool:
    """Whether a commit that is no load's changed what raw holds."""
    counts = ("added-data-files", "deleted-data-files", "added-delete-files")
    ours = snapshot_property(snapshot, LOAD_ID) is not None
    return not ours and any(_count(snapshot, name) for name in counts)


def _refuse_foreign(lake: Lake, ledger: Ledger, contract: TableContract) -> None:
    listing = _list(lake, ledger, contract)
    if listing.found:
        raise raw_damaged(contract, listing.found[0], FOREIGN_STEP)


def _is_live(lake: Lake, tables: Mapping[str, LakeTable], path: str) -> bool:
    for table in tables.values():
        with lake.translated(".".join(table.name())):
            if any(path == file.file_path for file in _files(table)):
                return True
    return False


# --- proving raw ----------------------------------------------------------------------------------


@dataclass
class _Listing:
    """Raw's files by name, beside what is recorded of them."""

    files: dict[str, LakeFile] = field(default_factory=dict[str, LakeFile])
    known: list[RawFile] = field(default_factory=list[RawFile])
    unknown: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    found: list[Damage] = field(default_factory=list[Damage])
    tables: dict[str, LakeTable] = field(default_factory=dict[str, LakeTable])
    heads: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    loads: dict[str, Load] = field(default_factory=dict[str, Load])
    unsettled: bool = False


def prove_raw(
    lake: Lake,
    ledger: Ledger,
    contract: TableContract,
    *,
    most_bytes: int | None = None,
    run_id: str = "check",
) -> RawLook:
    """Hold every file in raw against what its load recorded.

    All are compared by name, rows and size with the lake's metadata; their bytes are read too.
    Files without a record are read as well: where their rows are those that their load's receipt
    digested, their checksums are recorded from now on.

    Args:
        most_bytes: about how much is read at most, what was read longest ago first; None: all.

    Raises:
        LakeError: the catalog or the storage failed.
        LedgerError: the ledger can't be read or written.
    """
    listing = _list(lake, ledger, contract)
    adopted = 0
    if listing.unknown and not listing.unsettled:
        adopted, wrong = _adopt(lake, ledger, contract, listing, run_id, most_bytes)
        if adopted:
            listing = _list(lake, ledger, contract)
        listing.found += wrong
    chosen = _choose(listing.known, None if most_bytes is None else max(0, most_bytes - adopted))
    read = [r for r in chosen if r.name in listing.files]
    found = [one for one in _compare(lake, listing.tables, read) if one is not None]
    if found:
        # What a reload took out of raw meanwhile is not damaged.
        live = _list(lake, ledger, contract)
        paths = {file.file_path for file in live.files.values()}
        found = [one for one in found if one.path in paths]
    bad = {one.path for one in found}
    good = [r for r in read if listing.files[r.name].file_path not in bad]
    if good:
        ledger.record_checked(contract.name, [r.name for r in good])
    return _look_of(listing, read, found)


def _look_of(listing: _Listing, read: Sequence[RawFile], found: Sequence[Damage]) -> RawLook:
    damaged = (*listing.found, *found)
    bad = {one.path for one in damaged}
    files = listing.files.values()
    whole = len(read) == len(listing.files)
    expected = _digest(listing.known) if whole or not listing.unknown else ""
    as_read = [r for r in read if listing.files[r.name].file_path not in bad]
    return RawLook(
        files=len(listing.files),
        rows=sum(file.record_count for file in files),
        bytes=sum(file.file_size_in_bytes for file in files),
        read=len(read),
        read_bytes=sum(record.bytes for record in read),
        unknown=sum(len(names) for names in listing.unknown.values()),
        unknown_loads=len(listing.unknown),
        found=damaged,
        unsettled=listing.unsettled,
        digest=_digest(as_read) if whole else "",
        expected=expected,
        snapshots=listing.heads,
    )


def _digest(records: Iterable[RawFile]) -> str:
    lines = sorted(f"{record.name} {record.checksum}\n" for record in records)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _choose(records: Sequence[RawFile], most_bytes: int | None) -> list[RawFile]:
    """The files to read: all of them, or at least one, and those read longest ago."""
    if most_bytes is None:
        return list(records)
    never = datetime.min.replace(tzinfo=UTC)
    chosen: list[RawFile] = []
    left = most_bytes
    for record in sorted(records, key=lambda r: (r.checked_at or never, r.name)):
        if chosen and left < record.bytes:
            break
        chosen.append(record)
        left -= record.bytes
    return chosen


def _list(lake: Lake, ledger: Ledger, contract: TableContract) -> _Listing:
    """One consistent look at the heads and the ledger: a load that commits meanwhile would have
    files in one and not in the other."""
    before = _heads(lake, ledger, contract)
    listing = _list_once(lake, ledger, contract)
    for _ in range(ROUNDS):
        after = _heads(lake, ledger, contract)
        if before == listing.heads == after:
            return listing
        before, listing = after, _list_once(lake, ledger, contract)
    listing.unsettled = True
    listing.found.clear()
    return listing


def _heads(lake: Lake, ledger: Ledger, contract: TableContract) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name in _names(ledger, contract):
        table = lake.load(Identifier(contract.namespaces.raw, name))
        head = table.current_snapshot() if table is not None else None
        found[name] = head.snapshot_id if head is not None else None
    return found


def _names(ledger: Ledger, contract: TableContract) -> list[str]:
    return list(dict.fromkeys(v.raw_table for v in ledger.schema_versions(contract.name)))


def _list_once(lake: Lake, ledger: Ledger, contract: TableContract) -> _Listing:
    listing = _Listing()
    # Every success there ever was: raw keeps the files of loads that no fold takes any more.
    loads = ledger.successful_loads(contract.name, ever=True)
    listing.loads = {load.load_id: load for load in loads}
    records = {record.name: record for record in ledger.raw_files(contract.name)}
    recorded = {record.seq for record in records.values()}
    open_ids = {load.load_id for load in ledger.unsettled_loads(contract.name)}
    for name in _names(ledger, contract):
        table = lake.load(Identifier(contract.namespaces.raw, name))
        head = table.current_snapshot() if table is not None else None
        listing.heads[name] = head.snapshot_id if head is not None else None
        if table is None:
            continue
        listing.tables[name] = table
        shown = {snapshot_property(snapshot, LOAD_ID) for snapshot in history(table)}
        listing.unsettled = listing.unsettled or bool(shown & open_ids)
        with lake.translated(contract.name):
            for file in _files(table):
                _place(listing, table, file, records, recorded)
    if listing.unsettled:
        listing.found.clear()  # what that load took out, or put in, is not settled yet
        return listing
    seqs = {load.seq for load in loads}
    for record in records.values():
        if record.seq in seqs and record.name not in listing.files:
            identifier = Identifier(contract.namespaces.raw, record.raw_table)
            listing.found.append(Damage(identifier, record.name, LOST))
    return listing


def _files(table: LakeTable) -> list[LakeFile]:
    """Every data and delete file that main names."""
    if table.current_snapshot() is None:
        return []
    tasks = list(table.scan().plan_files())
    deletes = {file.file_path: file for task in tasks for file in task.delete_files}
    return [*(task.file for task in tasks), *deletes.values()]


def _place(
    listing: _Listing,
    table: LakeTable,
    file: LakeFile,
    records: Mapping[str, RawFile],
    recorded: set[int],
) -> None:
    """Put a file of raw where it belongs: known, unknown, or not to be there."""
    name = _name(file.file_path, table.location())
    listing.files[name] = file
    identifier = Identifier(*table.name()[-2:])
    record = records.get(name)
    if record is not None:
        listing.known.append(record)
        if (file.record_count, file.file_size_in_bytes) != (record.rows, record.bytes):
            what = (
                f"has {file.record_count:,} rows and {file.file_size_in_bytes:,} bytes by the "
                f"lake's metadata, and its load wrote {record.rows:,} and {record.bytes:,}"
            )
            listing.found.append(Damage(identifier, file.file_path, what))
        return
    load_id = name.rpartition("/")[2].split("-", 1)[0]
    load = listing.loads.get(load_id)
    if int(file.content) or load is None or load.seq in recorded or "/data/" in name:
        listing.found.append(Damage(identifier, file.file_path, FOREIGN))
    else:
        listing.unknown.setdefault(load_id, []).append(name)


def _compare(
    lake: Lake, tables: Mapping[str, LakeTable], records: Sequence[RawFile]
) -> list[Damage | None]:
    """What is wrong with each of these files, by its bytes; None where nothing is."""

    def compare(record: RawFile) -> Damage | None:
        table = tables[record.raw_table]
        path = f"{table.location()}/data/{record.name}"
        what = _difference(table.io, path, record)
        return Damage(Identifier(*table.name()[-2:]), path, what) if what else None

    with lake.translated("raw"), ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(compare, records))


def _difference(io: Storage, path: str, record: RawFile) -> str | None:
    try:
        size, checksum = checksum_of(io, path)
    except FileNotFoundError:
        return MISSING
    if size != record.bytes:
        return f"has {size:,} bytes of {record.bytes:,}"
    return None if checksum == record.checksum else ALTERED


def checksum_of(io: Storage, path: str) -> tuple[int, str]:
    """A file's length in bytes and its SHA-256 in hexadecimal, as it is read now."""
    found, size = hashlib.sha256(), 0
    with io.new_input(path).open(seekable=False) as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
            size += len(block)
    return size, found.hexdigest()


# --- files without a record -----------------------------------------------------------------------


def _adopt(
    lake: Lake,
    ledger: Ledger,
    contract: TableContract,
    listing: _Listing,
    run_id: str,
    most_bytes: int | None,
) -> tuple[int, list[Damage]]:
    """Record the files of loads whose rows are those that their receipts digested; how many bytes
    were read, and the loads whose rows are others.

    Under the table's lease, so that no reload takes a file away meanwhile: where a run holds it,
    they stay unknown.
    """
    read, wrong = 0, list[Damage]()
    try:
        with ledger.lease(contract.name, run_id):
            for load_id, names in listing.unknown.items():
                if most_bytes is not None and read > most_bytes:
                    break
                load = listing.loads[load_id]
                files = [listing.files[name] for name in names]
                receipt = load.receipt
                # A reload may have taken some of its files: the rest can't be held against it.
                if receipt is None or sum(f.record_count for f in files) != receipt.committed:
                    continue
                table = listing.tables[load.raw_table]
                read += sum(f.file_size_in_bytes for f in files)
                with lake.translated(contract.name):
                    digest = sum(_digest_of_file(table, f.file_path) for f in files) % 2**64
                    if digest != int(receipt.digest, 16):
                        at = Identifier(contract.namespaces.raw, load.raw_table)
                        what = f"and {len(files) - 1} more have other rows than load {load_id} read"
                        wrong.append(Damage(at, files[0].file_path, what))
                        continue
                    ledger.record_raw_files(contract.name, _records(table, load, names, files))
    except LeaseHeld:
        logger.info("table %s: a run holds it: files without checksums stay so", contract.name)
    return read, wrong


def _records(
    table: LakeTable, load: Load, names: Sequence[str], files: Sequence[LakeFile]
) -> list[RawFile]:
    return [
        RawFile(name, load.raw_table, load.seq, file.record_count, size, checksum, "receipt")
        for name, file in zip(names, files, strict=True)
        for size, checksum in [checksum_of(table.io, file.file_path)]
    ]


def _digest_of_file(table: LakeTable, path: str) -> int:
    """The sum of the digests of a file's rows, as its load's receipt counts them: without
    tombstones."""
    schema = arrow_schema(table.schema(), field_ids=False)
    columns = schema.names[: schema.names.index(LOAD)]
    total = 0
    with table.io.new_input(path).open(seekable=True) as stream:
        for batch in pq.ParquetFile(stream).iter_batches(columns=[*columns, DELETED]):
            rows = pa.Table.from_batches([batch])
            rows = rows.filter(pc.invert(pc.fill_null(rows.column(DELETED), False)))
            cells = [rows.column(name).cast(schema.field(name).type) for name in columns]
            total += digest_of(pa.Table.from_arrays(cells, names=columns))
    return total
