"""Records in files, laid out as a landing is: each exactly once.

::

    json/<source>/<db>/<table>/binlog/<YYYYMMDD>/<load>_<N>.json[.gz]
    json/<source>/<db>/<table>/binlog/<YYYYMMDD>/<load>_manifest.json
    schemas/<source>/<db>/<table>/<table_version>.json

``<load>`` is the number of a batch's first load, in 14 digits. The manifest is written last, and a
batch is there once its manifest is. A batch is written down in the ledger before its first file:
what an attempt left that died is removed, and the same names come again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from mirrorlake.config.contract import TableContract
from mirrorlake.errors import LandingError, RecordsError
from mirrorlake.failpoints import failpoint
from mirrorlake.landing.files.writer import ChunkFile
from mirrorlake.ledger import Load
from mirrorlake.records.config import DestinationConfig
from mirrorlake.records.destination import BatchPublished, LoadBatch, store_errors
from mirrorlake.records.load_records import LoadRecords
from mirrorlake.sources.files.layout import MANIFEST, escape
from mirrorlake.sources.files.store import Store

_MOST_ROWS: Final = 1_000_000


class RecordFiles:
    """The files of one table."""

    most_rows = _MOST_ROWS

    def __init__(self, store: Store, settings: DestinationConfig, contract: TableContract) -> None:
        self._store, self._settings, self._table = store, settings, contract.name
        names = "/".join(map(escape, (contract.source, contract.database, contract.table)))
        self._folder, self._schemas = f"json/{names}/binlog", f"schemas/{names}"
        self._written: set[str] = set()

    def close(self) -> None:
        """Nothing is open between two batches."""

    def known(self) -> Mapping[int, str]:
        """See `RecordDestination.known`: the loads of all manifests."""
        found: dict[int, str] = {}
        with store_errors(self._table):
            for day in self._days():
                for path in self._manifests(day):
                    found.update(self._manifest(path)[0])
        return found

    def newest(self) -> Mapping[int, str]:
        """See `RecordDestination.newest`: of the last day that has any."""
        with store_errors(self._table):
            for day in reversed(self._days()):
                if there := self._manifests(day):
                    return self._manifest(max(there))[0]
        return {}

    def _days(self) -> list[str]:
        try:
            return self._store.folders(self._folder, "")
        except LandingError:
            if self._store.names(""):
                raise
            return []  # the folder is made with the first file

    def _manifests(self, day: str) -> list[str]:
        names = self._store.names(f"{self._folder}/{day}")
        return [f"{self._folder}/{day}/{name}" for name in names if name.endswith(MANIFEST)]

    def _manifest(self, path: str) -> tuple[dict[int, str], BatchPublished]:
        """The loads of a manifest, and what it says was published."""
        with self._store.open(path) as stream:
            text = stream.read()
        try:
            found = cast("dict[str, Any]", json.loads(text))
            loads = {int(seq): str(load_id) for seq, load_id in found["loads"]}
            return loads, BatchPublished(int(found["records"]), len(found["files"]))
        except (ValueError, KeyError, TypeError) as error:
            raise self._others(path, "is no manifest of records") from error

    def _others(self, path: str, why: str) -> RecordsError:
        return RecordsError(
            f"table {self._table}: {self._store.describe(path)} {why}",
            table=self._table,
            next_step="Give the records a folder of their own",
        )

    def publish(self, records: LoadRecords, batch: LoadBatch) -> BatchPublished:
        """See `RecordDestination.publish`."""
        place = f"{self._folder}/{batch.first.window.day:%Y%m%d}"
        with store_errors(self._table):
            if (done := self._find(place, batch)) is not None:
                return done
            files = _Files(self._store, place, batch, self._settings)
            try:
                for before, load in batch.loads:
                    for record in records.records(load, before, copies=batch.copies):
                        self._write_schema(records, load)
                        files.add(record.line.encode() + b"\n", record.position)
                files.end_file()
            except BaseException:
                files.cancel()
                raise
            if not files.done:
                return BatchPublished(0)
            self._write_manifest(f"{place}/{_stem(batch)}{MANIFEST}", batch, files)
        failpoint("records.manifest")
        return BatchPublished(files.records, len(files.done), files.position)

    def _find(self, place: str, batch: LoadBatch) -> BatchPublished | None:
        """What an earlier attempt published of this batch, where it did so whole; what one left
        that died is removed."""
        left = [n for n in self._store.names(place) if n.startswith(f"{_stem(batch)}_")]
        manifest = f"{_stem(batch)}{MANIFEST}"
        if manifest in left:
            loads, done = self._manifest(f"{place}/{manifest}")
            if loads != _loads(batch):
                why = "is of other loads: another ledger's records are there"
                raise self._others(f"{place}/{manifest}", why)
            return done
        for name in left:
            batch.check()
            self._store.remove(f"{place}/{name}")
        return None

    def _write_schema(self, records: LoadRecords, load: Load) -> None:
        """Write what the columns of a load's version are, where that is not there yet."""
        if load.raw_table in self._written:
            return
        version, text = records.schema(load)
        path = f"{self._schemas}/{version}.json"
        if self._store.entry(path) is None or self._read(path) != text:
            with self._store.create(path, replace=True) as stream:
                stream.write(text)
        self._written.add(load.raw_table)

    def _read(self, path: str) -> bytes:
        with self._store.open(path) as stream:
            return stream.read()

    def _write_manifest(self, path: str, batch: LoadBatch, files: _Files) -> None:
        batch.check()
        found = {
            "version": 1,
            "records": files.records,
            "loads": [list(pair) for pair in _loads(batch).items()],
            "files": files.done,
        }
        with self._store.create(path, replace=True) as stream:
            stream.write(json.dumps(found, indent=1).encode())


class _Files:
    """The files of one batch, each there once it is full.

    Attributes:
        done: their entries in the manifest.
    """

    def __init__(
        self, store: Store, place: str, batch: LoadBatch, settings: DestinationConfig
    ) -> None:
        self._store, self._stem, self._packed = store, f"{place}/{_stem(batch)}", settings.gzip
        self._rows, self._bytes = settings.max_rows, int(settings.max_megabytes * 10**6)
        self._check: Callable[[], None] = batch.check
        self._open: ChunkFile | None = None
        self._in_file = 0
        self.done: list[dict[str, Any]] = []
        self.records = 0
        self.position: str | None = None

    def add(self, line: bytes, position: str | None) -> None:
        """One record, with its line end."""
        if self._open is not None and (
            self._in_file >= self._rows or self._open.size + len(line) > self._bytes
        ):
            self.end_file()
        if self._open is None:
            ending = ".gz" if self._packed else ""
            path = f"{self._stem}_{len(self.done)}.json{ending}"
            self._open = ChunkFile(self._store, path, packed=self._packed, replace=True)
        self._open.write(line)
        self._in_file += 1
        self.records += 1
        self.position = position or self.position

    def end_file(self) -> None:
        """The file is full."""
        if self._open is None:
            return
        self._check()
        chunk, self._open = self._open, None
        self.done.append({**chunk.close(), "records": self._in_file})
        self._in_file = 0
        failpoint("records.file")

    def cancel(self) -> None:
        """End without the file that is open."""
        if self._open is not None:
            self._open.cancel()


def _stem(batch: LoadBatch) -> str:
    return f"{batch.first.seq:014d}"


def _loads(batch: LoadBatch) -> dict[int, str]:
    return {load.seq: load.load_id for _, load in batch.loads}
