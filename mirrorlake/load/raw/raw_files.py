"""Raw's data files, and what their loads recorded of them: rows, bytes and a checksum.

What belongs here: writing that record down, and holding the files against it. The checksum is of
the bytes as their writer sent them, and stands in the ledger: so a file that rotted, was replaced,
or was put into raw by somebody else can't speak for itself. A fold reads again the bytes of the
files that it is about to fold, and of no others; `mirrorlake.load.raw.raw_proof` reads those of
all.

A load of an older release, or one that a rebuilt ledger found in the lake, has no such record: its
files are *unknown*, until a proof of raw finds their rows to be those that the load's receipt
digested.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.metrics import FileMetrics
from mirrorlake.destinations.iceberg.model import (
    LakeFile,
    LakeSnapshot,
    LakeTable,
    Storage,
    history,
    removed_files,
    snapshot_property,
)
from mirrorlake.destinations.iceberg.tables.integrity import MISSING, RAW_STEP, Damage, raw_damaged
from mirrorlake.ledger import Ledger, Load, RawFile
from mirrorlake.runtime.at_once import map_at_once
from mirrorlake.table.meaning import recorded_meaning

logger = logging.getLogger(__name__)

_BLOCK = 4 * 2**20
_AT_ONCE = 4
ROUNDS = 3
"""How often raw is listed again because a load came in between."""
FOREIGN = "is in raw, and no load wrote it"
ALTERED = "has other bytes than its load wrote"
LOST = "was written by a load, and is not in raw any more"
_FOREIGN_STEP = (
    "Find out who wrote into raw. A file that no load wrote is taken out in Spark: `DELETE FROM "
    "<the raw table> WHERE _file = '<the file>'`; a file that was taken out comes back by "
    "`CALL lake.system.rollback_to_snapshot`, or its days are loaded again"
)


# --- recording ------------------------------------------------------------------------------------


def record_written(ledger: Ledger, load: Load, location: str, metrics: Mapping[str, str]) -> None:
    """Write down the files that a load is about to commit; ``metrics`` are `FileMetrics` as JSON,
    by path.

    Before the commit: a death right after it leaves no file without its record.

    Raises:
        LeaseHeld: another run has taken the load over; nothing was written.
    """
    recorded = {path: FileMetrics.from_json(text) for path, text in metrics.items() if text}
    files = [
        RawFile(_name(path, location), load.raw_table, load.seq, one.rows, one.size, one.checksum)
        for path, one in recorded.items()
        if one.checksum
    ]
    ledger.record_written_files(load, files)


def digest_of_files(metrics: Iterable[tuple[str, str]]) -> str:
    """A digest of what a load wrote, by its files' names and checksums; '' where one has none.

    Args:
        metrics: pairs of a file's path and its `FileMetrics` as JSON.
    """
    sums = {path: FileMetrics.from_json(text).checksum if text else "" for path, text in metrics}
    if not all(sums.values()):
        return ""
    return digest_of_checksums({path.rpartition("/data/")[2]: one for path, one in sums.items()})


def digest_of_checksums(checksums: Mapping[str, str]) -> str:
    """A digest of files by their names below the folder of data → the SHA-256 of their bytes."""
    lines = sorted(f"{name} {checksum}\n" for name, checksum in checksums.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def replaced_files(lake: Lake, raw: Identifier, at: int | None) -> list[str]:
    """The names of the files that a load's commit took out of raw: to be forgotten when the load is
    a success."""
    table = lake.load(raw) if at is not None else None
    snapshot = table.snapshot_by_id(at) if table is not None and at is not None else None
    if table is None or snapshot is None or not _count(snapshot, "deleted-data-files"):
        return []
    with lake.translated(raw):
        return [_name(path, table.location()) for path in removed_files(table, snapshot)]


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
    for found in compare_bytes(lake, tables, waiting):
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
    listing = list_files(lake, ledger, contract)
    if listing.found:
        raise raw_damaged(contract, listing.found[0], _FOREIGN_STEP)


def _is_live(lake: Lake, tables: Mapping[str, LakeTable], path: str) -> bool:
    for table in tables.values():
        with lake.translated(".".join(table.name())):
            if any(path == file.file_path for file in _files(table)):
                return True
    return False


# --- listing and comparing ------------------------------------------------------------------------


@dataclass
class RawListing:
    """Raw's files by name, beside what is recorded of them."""

    files: dict[str, LakeFile] = field(default_factory=dict[str, LakeFile])
    known: list[RawFile] = field(default_factory=list[RawFile])
    unknown: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    found: list[Damage] = field(default_factory=list[Damage])
    tables: dict[str, LakeTable] = field(default_factory=dict[str, LakeTable])
    heads: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    loads: dict[str, Load] = field(default_factory=dict[str, Load])
    unsettled: bool = False


def list_files(lake: Lake, ledger: Ledger, contract: TableContract) -> RawListing:
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


def _list_once(lake: Lake, ledger: Ledger, contract: TableContract) -> RawListing:
    listing = RawListing()
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
    seqs = {load.seq for load in loads if _is_in(load, contract.namespaces.raw)}
    for record in records.values():
        if record.seq in seqs and record.name not in listing.files:
            identifier = Identifier(contract.namespaces.raw, record.raw_table)
            listing.found.append(Damage(identifier, record.name, LOST))
    return listing


def _is_in(load: Load, namespace: str) -> bool:
    """Whether a load's files are in that namespace: those of an earlier one stay where they are."""
    meaning = recorded_meaning(load.receipt)
    return meaning is None or meaning.raw == namespace


def _files(table: LakeTable) -> list[LakeFile]:
    """Every data and delete file that main names."""
    if table.current_snapshot() is None:
        return []
    tasks = list(table.scan().plan_files())
    deletes = {file.file_path: file for task in tasks for file in task.delete_files}
    return [*(task.file for task in tasks), *deletes.values()]


def _place(
    listing: RawListing,
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


def compare_bytes(
    lake: Lake, tables: Mapping[str, LakeTable], records: Sequence[RawFile]
) -> list[Damage | None]:
    """What is wrong with each of these files, by its bytes; None where nothing is."""

    def compare(record: RawFile) -> Damage | None:
        table = tables[record.raw_table]
        path = f"{table.location()}/data/{record.name}"
        what = _difference(table.io, path, record)
        return Damage(Identifier(*table.name()[-2:]), path, what) if what else None

    with lake.translated("raw"):
        return map_at_once(compare, records, _AT_ONCE, "compare")


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
