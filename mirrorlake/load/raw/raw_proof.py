"""Raw proved: every file in it is the one that its load wrote, byte by byte.

A file without a record (of a load of an older release, or of one that a rebuilt ledger found in the
lake) is held against the digest in its load's receipt, and has a record from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.parquet as pq

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeFile, LakeTable, arrow_schema
from mirrorlake.destinations.iceberg.tables.integrity import Damage
from mirrorlake.errors import LeaseHeld
from mirrorlake.ledger import Ledger, Load, RawFile
from mirrorlake.load.raw.raw_files import (
    RawListing,
    checksum_of,
    compare_bytes,
    digest_of_checksums,
    list_files,
)
from mirrorlake.load.row_hashes.digest import digest_of
from mirrorlake.schema.own_columns import DELETED, LOAD

logger = logging.getLogger(__name__)

pc: Any = _compute  # its functions are made at import: type checkers see none of them
_OF_ROWS = 16
"""How long a digest of rows is, which receipts of earlier releases have."""


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
    Files without a record are read as well: where they are those of which their load's receipt has
    a digest, their checksums are recorded from now on.

    Args:
        most_bytes: about how much is read at most, what was read longest ago first; None: all.

    Raises:
        LakeError: the catalog or the storage failed.
        LedgerError: the ledger can't be read or written.
    """
    listing = list_files(lake, ledger, contract)
    adopted = 0
    if listing.unknown and not listing.unsettled:
        adopted, wrong = _adopt(lake, ledger, contract, listing, run_id, most_bytes)
        if adopted:
            listing = list_files(lake, ledger, contract)
        listing.found += wrong
    chosen = _choose(listing.known, None if most_bytes is None else max(0, most_bytes - adopted))
    read = [r for r in chosen if r.name in listing.files]
    found = [one for one in compare_bytes(lake, listing.tables, read) if one is not None]
    if found:
        # What a reload took out of raw meanwhile is not damaged.
        live = list_files(lake, ledger, contract)
        paths = {file.file_path for file in live.files.values()}
        found = [one for one in found if one.path in paths]
    bad = {one.path for one in found}
    good = [r for r in read if listing.files[r.name].file_path not in bad]
    if good:
        ledger.record_checked(contract.name, [r.name for r in good])
    return _look_of(listing, read, found)


def _look_of(listing: RawListing, read: Sequence[RawFile], found: Sequence[Damage]) -> RawLook:
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
    return digest_of_checksums({record.name: record.checksum for record in records})


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


# --- files without a record -----------------------------------------------------------------------


def _adopt(
    lake: Lake,
    ledger: Ledger,
    contract: TableContract,
    listing: RawListing,
    run_id: str,
    most_bytes: int | None,
) -> tuple[int, list[Damage]]:
    """Record the files of loads that are those of which their receipts have a digest; how many
    bytes were read, and the loads whose files are others.

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
                    records = _records(table, load, names, files)
                    if not receipt.digest:
                        continue
                    if not _is_written(table, receipt.digest, files, records):
                        at = Identifier(contract.namespaces.raw, load.raw_table)
                        what = f"and {len(files) - 1} more are not what load {load_id} wrote"
                        wrong.append(Damage(at, files[0].file_path, what))
                        continue
                    ledger.record_raw_files(contract.name, records)
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


def _is_written(
    table: LakeTable, digest: str, files: Sequence[LakeFile], records: Sequence[RawFile]
) -> bool:
    """Whether these files are those of which a receipt has this digest."""
    if len(digest) > _OF_ROWS:
        return digest_of_checksums({one.name: one.checksum for one in records}) == digest
    found = sum(_digest_of_file(table, file.file_path) for file in files) % 2**64
    return found == int(digest, 16)


def _digest_of_file(table: LakeTable, path: str) -> int:
    """The sum of the digests of a file's rows, as the receipt of a load of an earlier release
    counts them: without tombstones."""
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
