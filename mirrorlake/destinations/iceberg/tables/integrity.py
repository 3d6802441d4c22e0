"""Files that a lake table names and that are not there, are cut, or are no longer what they were.

After a power cut, or when somebody removed a file, what a reader gets is an error of Java's or of
PyArrow's that names neither the table nor a way out. Here the file is looked for, only once
something failed, and the error names table and file: deduped and clean are made again from raw.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from shlex import quote
from typing import Any

import pyarrow as pa
import pyarrow.parquet as _parquet
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from mirrorlake.config.contract import Mirrored, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.manifests import ManifestCut, entries_of, manifests_of
from mirrorlake.destinations.iceberg.metadata.row_counts import count_shown
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.errors import LakeDamaged, LakeError, MirrorlakeError
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.at_once import map_at_once

pq: Any = _parquet  # its functions are made at import: type checkers see none of them
MISSING = "is not there"
_AT_ONCE = 16
LOOKED = 60.0
"""Seconds for which a file is looked for after an error, at most: raw may have very many."""
_END = 8
"""Bytes that every Parquet file ends with: the footer's length, and PAR1."""
RAW_STEP = (
    "Nothing else has its rows: put the file back from a backup, or mirror the table again under "
    "other namespaces"
)


@dataclass(frozen=True)
class Damage:
    """The first file found of a lake table (or view) that can't be read, and what is wrong."""

    identifier: Identifier
    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


@contextmanager
def damage_errors(
    lake: Connection, ledger: Ledger, contract: TableContract, *, of_raw_alone: bool = False
) -> Iterator[None]:
    """Raise an error of the block as `LakeDamaged` where a lake table of this contract (or its raw
    tables alone) names a file that can't be read; any other error as it is."""
    try:
        yield
    except Exception as error:
        ours = isinstance(error, MirrorlakeError)
        if ours and (not isinstance(error, LakeError) or error.retryable):
            raise
        damaged = _first_damage(lake, ledger, contract, of_raw_alone)
        if damaged is None:
            raise
        raise damaged from error


def _first_damage(
    lake: Connection, ledger: Ledger, contract: TableContract, of_raw_alone: bool
) -> LakeDamaged | None:
    """The error for the first damage of a contract's lake tables; None where all can be read, as
    far as there was time to look."""
    until = time.monotonic() + LOOKED
    for layer, identifier in () if of_raw_alone else _made_of_raw(contract):
        damage = find_damage(lake, identifier, until)
        if damage is not None:
            return _error(contract, layer, damage, _step(contract))
    names = dict.fromkeys(version.raw_table for version in ledger.schema_versions(contract.name))
    for name in names:
        damage = find_damage(lake, Identifier(contract.namespaces.raw, name), until)
        if damage is not None:
            return _error(contract, "raw", damage, RAW_STEP)
    return None


def _step(contract: TableContract) -> str:
    if contract.landed:
        return (
            "Put the file back from a backup, or rename the lake table (one that is dropped is "
            "registered again), then `mirrorlake land`: its snapshots are folded again from their "
            "files"
        )
    return f"Raw has every row: `mirrorlake refold {quote(contract.name)}` makes it again"


def _error(contract: TableContract, layer: str, damage: Damage, step: str) -> LakeDamaged:
    return LakeDamaged(
        f"table {contract.name}: its {layer} table {damage.identifier} can't be read: {damage}",
        table=contract.name,
        reason=damage.what,
        next_step=step,
    )


def raw_damaged(contract: TableContract, damage: Damage, step: str) -> LakeDamaged:
    """The error for a file of raw that is not what its load wrote."""
    return LakeDamaged(
        f"table {contract.name}: its raw table {damage.identifier} is not what was loaded: "
        f"{damage}",
        table=contract.name,
        reason=damage.what,
        next_step=step,
    )


def layers_of(contract: Mirrored) -> Sequence[tuple[str, Identifier]]:
    """What is made of a contract's raw rows: layers and their tables (clean may be a view)."""
    spaces = contract.namespaces
    return (
        ("deduped", Identifier(spaces.deduped, contract.table)),
        ("clean", Identifier(spaces.clean, contract.table)),
    )


def _made_of_raw(contract: TableContract) -> Iterator[tuple[str, Identifier]]:
    """The layers, and the table of all versions, if the contract wants one."""
    yield from layers_of(contract)
    if contract.versions == "table":
        yield "versions", Identifier(contract.namespaces.raw, contract.table)


def is_damaged(lake: Connection, contract: TableContract) -> bool:
    """Whether deduped, clean or the table of all versions can't be read, as far as `find_damage`
    looks.

    Raises:
        LakeError: the catalog or the storage can't be queried.
    """
    return any(find_damage(lake, identifier) for _, identifier in _made_of_raw(contract))


def count_rows(
    lake: Connection, ledger: Ledger, contract: TableContract
) -> tuple[int | None, str | None]:
    """The rows that deduped shows, from metadata and delete files (None if it is not there), and
    why it can't be read, in words, where it can't.

    Raises:
        LakeError: the catalog or the storage can't be queried.
    """
    identifier = Identifier(contract.namespaces.deduped, contract.table)
    try:
        with damage_errors(lake, ledger, contract), lake.translated(identifier):
            table = lake.load(identifier)
            return None if table is None else count_shown(table), None
    except LakeDamaged as error:
        return None, str(error)


# --- looking --------------------------------------------------------------------------------------


class _Unreadable(Exception):
    def __init__(self, path: str, what: str) -> None:
        super().__init__(path)
        self.path, self.what = path, what


def find_damage(
    lake: Connection,
    identifier: Identifier,
    until: float | None = None,
    version: int | None = None,
) -> Damage | None:
    """The first file of a table's current version, or of another (its metadata, manifests, data and
    delete files) that is not there, is cut or has another end than its own; of a view, its
    metadata.

    None where there is no such table, and where every file is as long as it should be and ends as
    it should: whether each byte within is right is not looked at.

    Args:
        until: when (``time.monotonic``) to give up looking at data files.
        version: None for the current one.

    Raises:
        LakeError: the catalog or the storage can't be queried.
    """
    try:
        table = lake.load(identifier)
        if table is None:
            read_view(lake, identifier)
            return None
        found = table.current_snapshot() if version is None else table.snapshot_by_id(version)
        if found is not None:
            with lake.translated(identifier):
                _look_at_snapshot(table.io, found, set(), until)
    except LakeDamaged as error:
        return Damage(identifier, "its metadata", error.reason)
    except _Unreadable as error:
        return Damage(identifier, error.path, error.what)
    return None


def find_unreadable(table: Table) -> list[int]:
    """The versions of a table of which a file can't be read, as far as `find_damage` looks."""
    found: list[int] = []
    seen: set[str] = set()
    for snapshot in table.snapshots():
        try:
            _look_at_snapshot(table.io, snapshot, seen, None)
        except _Unreadable:
            found.append(snapshot.snapshot_id)
    return found


def _look_at_snapshot(io: FileIO, snapshot: Snapshot, seen: set[str], until: float | None) -> None:
    """Its files, but for those ``seen`` before, which were found well; those that are join them."""

    def look(file: DataFile) -> None:
        if until is None or time.monotonic() < until:
            _look_at_file(io, file)

    with _reading(snapshot.manifest_list):
        manifests = manifests_of(io, snapshot)
    for manifest in manifests:
        if manifest.manifest_path in seen:
            continue
        with _reading(manifest.manifest_path):
            entries = entries_of(io, manifest)
        files = [e.data_file for e in entries if e.data_file.file_path not in seen]
        map_at_once(look, files, _AT_ONCE)
        seen |= {manifest.manifest_path, *(file.file_path for file in files)}


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """What bytes that are cut, or are none of the format's, make a decoder raise; a storage that
    doesn't answer is no such thing."""
    try:
        yield
    except FileNotFoundError as error:
        raise _Unreadable(path, MISSING) from error
    except ManifestCut as error:
        raise _Unreadable(path, error.what) from error
    except (_Unreadable, OSError):
        raise
    except Exception as error:
        raise _Unreadable(path, "is cut, or is no file of its kind") from error


def _look_at_file(io: FileIO, file: DataFile) -> None:
    """Its length and its footer, which gives every column's place."""
    path, size = file.file_path, file.file_size_in_bytes
    with _reading(path), io.new_input(path).open(seekable=True) as stream:
        there = stream.seek(0, 2)
        if there != size:
            raise _Unreadable(path, f"has {there:,} bytes of {size:,}")
        stream.seek(size - _END)
        end = stream.read(_END)
        footer = int.from_bytes(end[:4], "little") + _END
        if end[4:] != b"PAR1" or footer > size:
            raise _Unreadable(path, "does not end as a Parquet file does")
        stream.seek(size - footer)
        text = stream.read(footer)
    try:
        pq.read_metadata(pa.BufferReader(text))
    except (OSError, ValueError) as error:
        raise _Unreadable(path, "has a damaged footer") from error
