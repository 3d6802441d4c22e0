"""The paths in a lake's own files: which files its tables reach, and all of them written for
another place.

Iceberg's paths are absolute: in table metadata, lists of manifests, manifests, and in the files
that name deleted rows. Iceberg's procedure `rewrite_table_path` reads a table at its old place, so
it can't help a lake that was moved or restored already, nor views; this works on a folder alone. A
file is rewritten where it is, after what it names, so a run that dies is simply run again.

Source: Iceberg specification, "Manifests", "Manifest Lists", "Position Delete Files", "Table
Metadata"; Puffin specification, "Footer".
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.destinations.iceberg.catalog.entries import CatalogEntry
from mirrorlake.destinations.iceberg.storage.file_store import FileStore
from mirrorlake.destinations.iceberg.storage.listing import listed_path
from mirrorlake.destinations.iceberg.warehouse.avro_files import AvroFile, read_avro, write_avro
from mirrorlake.errors import LakeDamaged, LakeError

_PATH_BOUND = 2147483546
"""The reserved id of the column of paths in a file of deleted rows."""
_PATHS = ("file_path", "referenced_data_file")
_DELETED, _POSITIONS = 2, 1
"""An entry's status, and a file's content."""
_GZIP, _PUFFIN = b"\x1f\x8b", b"PFA1"


@dataclass(frozen=True)
class Places:
    """Where a lake was, in every spelling, and where it is.

    >>> places = Places.of(["file:///srv/lake"], "gs://b/lake")
    >>> places.moved("file:///srv/lake/t/x"), places.moved("file:/srv/lake/t/x")
    ('gs://b/lake/t/x', 'gs://b/lake/t/x')
    >>> places.moved("file:///srv/lake2/x"), places.relative("gs://b/lake/t/x")
    ('file:///srv/lake2/x', 't/x')
    """

    old: tuple[str, ...]
    new: str

    @classmethod
    def of(cls, old: Sequence[str], new: str) -> Places:
        spelled: dict[str, None] = {}
        for root in old:
            forms = [root]
            if root.startswith("file:"):
                path = listed_path(root)
                forms += [f"file://{path}", f"file:{path}", path]
            spelled |= dict.fromkeys(form.rstrip("/") + "/" for form in forms)
        return cls(tuple(spelled), new.rstrip("/") + "/")

    def relative(self, location: str) -> str | None:
        """A path below the lake, whether it is the old one or the new; None of any other."""
        for root in (self.new, *self.old):
            if location.startswith(root):
                return location.removeprefix(root)
        return None

    def moved(self, text: str) -> str:
        """A path with the new place; any other text as it is."""
        if text.startswith(self.new):
            return text
        for root in self.old:
            if text.startswith(root):
                return self.new + text.removeprefix(root)
            if text == root[:-1]:
                return self.new[:-1]
        return text


@dataclass
class LakePaths:
    """The files of a lake in one folder, whose paths are those of its old place or its new."""

    store: FileStore
    places: Places
    _sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Files that were rewritten, or need not be, with their sizes now."""

    def reached(self, entries: Sequence[CatalogEntry]) -> Iterator[str]:
        """The names of all files that tables and views reach, each once: metadata first.

        Raises:
            FileNotFoundError: one of those that are read is gone.
            LakeError: a table names a file that is not in this lake.
            LakeDamaged: one is cut.
        """
        seen: set[str] = set()
        for entry in entries:
            for name in self._of_entry(entry, seen):
                if name not in seen:
                    seen.add(name)
                    yield name

    def rewrite(self, entry: CatalogEntry) -> None:
        """Write the files of a table or view for the new place, each where it is.

        Raises:
            LakeDamaged: one of them is cut or not there.
            LakeError: one names a file outside of the lake, or is of a kind that can't be written.
        """
        try:
            name = self._relative(entry.metadata, entry)
            content = self._metadata(name, entry)
            for snapshot in content.get("snapshots") or ():
                self._rewrite_list(self._relative(snapshot["manifest-list"], entry), entry)
            for older in content.get("metadata-log") or ():
                older_name = self._relative(older["metadata-file"], entry)
                if self.store.size(older_name) is not None:
                    self._rewrite_json(older_name)
            self._rewrite_json(name)
        except FileNotFoundError as error:
            raise _damaged(entry, f"{error.filename or error} is not there") from error
        except (ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
            raise _damaged(entry, f"one of its files can't be read: {error}") from error

    def _of_entry(self, entry: CatalogEntry, seen: set[str]) -> Iterator[str]:
        try:
            name = self._relative(entry.metadata, entry)
            content = self._metadata(name, entry)
            yield name
            for kind in ("statistics", "partition-statistics"):
                for one in content.get(kind) or ():
                    at = self._relative(one["statistics-path"], entry)
                    if self.store.size(at) is not None:  # a table is read without them, too
                        yield at
            for snapshot in content.get("snapshots") or ():
                at = self._relative(snapshot["manifest-list"], entry)
                if at in seen:
                    continue
                yield at
                yield from self._of_summary(snapshot.get("summary") or {})
                for manifest in read_avro(self.store.read(at)).records:
                    path = self._relative(manifest["manifest_path"], entry)
                    if path not in seen:
                        yield path
                        yield from self._of_manifest(path, entry)
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(entry, f"one of its files can't be read: {error}") from error

    def _of_summary(self, summary: dict[str, str]) -> Iterator[str]:
        """Files that a commit of ours names itself: what a landing's fold knows then."""
        for value in summary.values():
            name = self.places.relative(value)
            if name is not None and self.store.size(name) is not None:
                yield name

    def _of_manifest(self, name: str, entry: CatalogEntry) -> Iterator[str]:
        for record in read_avro(self.store.read(name)).records:
            if record["status"] != _DELETED:
                yield self._relative(record["data_file"]["file_path"], entry)

    def _relative(self, location: str, entry: CatalogEntry) -> str:
        found = self.places.relative(location)
        if found is None:
            raise LakeError(
                f"lake table {entry.shown} names {location}, which is not in its lake "
                f"({self.places.old[0] if self.places.old else self.places.new})",
                table=entry.shown,
                next_step="Write that file's rows into the table by Spark, or drop the table",
            )
        return found

    def _metadata(self, name: str, entry: CatalogEntry) -> dict[str, Any]:
        content = _unpacked(self.store.read(name))
        found = json.loads(content)
        if not isinstance(found, dict):
            raise _damaged(entry, f"{name} is no metadata")
        return found

    def _rewrite_json(self, name: str) -> None:
        if name in self._sizes:
            return
        packed = self.store.read(name)
        before = json.loads(_unpacked(packed))
        after = _mapped(before, self.places)
        if after != before:
            text = json.dumps(after, ensure_ascii=False, separators=(",", ":")).encode()
            self.store.write(name, gzip.compress(text) if packed[:2] == _GZIP else text)
        self._sizes[name] = 0

    def _rewrite_list(self, name: str, entry: CatalogEntry) -> None:
        if name in self._sizes:
            return
        file = read_avro(self.store.read(name))
        changed = False
        for manifest in file.records:
            path = self._relative(manifest["manifest_path"], entry)
            deletes = _plain(manifest.get("content", 0)) == 1
            size = self._rewrite_manifest(path, entry, deletes=deletes)
            now = {"manifest_path": self.places.moved(manifest["manifest_path"])}
            now |= {"manifest_length": size}
            changed |= any(manifest[key] != value for key, value in now.items())
            manifest |= now
        self._put(name, file, changed=changed)

    def _rewrite_manifest(self, name: str, entry: CatalogEntry, *, deletes: bool) -> int:
        """The size that the manifest has then."""
        if name in self._sizes:
            return self._sizes[name]
        file = read_avro(self.store.read(name))
        changed = False
        for record in file.records:
            there = record["data_file"]
            path = self._relative(there["file_path"], entry)
            if deletes and record["status"] != _DELETED and _plain(there["content"]) == _POSITIONS:
                size = self._rewrite_positions(path, there["file_format"], entry)
                changed |= there["file_size_in_bytes"] != size
                there["file_size_in_bytes"] = size
            changed |= _move_entry(there, self.places)
        return self._put(name, file, changed=changed)

    def _rewrite_positions(self, name: str, kind: str, entry: CatalogEntry) -> int:
        """A file that names rows by their files' paths; the size that it has then."""
        if name in self._sizes:
            return self._sizes[name]
        content = self.store.read(name)
        if kind.upper() == "PUFFIN" or content[:4] == _PUFFIN:
            after = moved_puffin(content, self.places)
        elif kind.upper() == "PARQUET":
            after = moved_parquet(content, self.places)
        else:
            raise LakeError(
                f"lake table {entry.shown}: {name} names deleted rows and is {kind}, which can't "
                "be written for another place",
                table=entry.shown,
                next_step="Compact the table (rewrite_data_files) where it is, and run it again",
            )
        if after is not None:
            self.store.write(name, after)
        self._sizes[name] = len(content if after is None else after)
        return self._sizes[name]

    def _put(self, name: str, file: AvroFile, *, changed: bool) -> int:
        if changed:
            content = write_avro(file)
            self.store.write(name, content)
            self._sizes[name] = len(content)
        else:
            self._sizes[name] = self.store.size(name) or 0
        return self._sizes[name]


def _move_entry(there: dict[str, Any], places: Places) -> bool:
    """A data or delete file's entry with the new place; whether it had the old one."""
    changed = False
    for key in _PATHS:
        value = there.get(key)
        text = value[1] if isinstance(value, tuple) else value
        if isinstance(text, str) and (moved := places.moved(text)) != text:
            there[key] = (value[0], moved) if isinstance(value, tuple) else moved
            changed = True
    for key in ("lower_bounds", "upper_bounds"):
        for bound in _plain(there.get(key)) or ():
            if bound["key"] == _PATH_BOUND:
                moved = places.moved(bound["value"].decode()).encode()
                changed |= moved != bound["value"]
                bound["value"] = moved
    return changed


def moved_parquet(content: bytes, places: Places) -> bytes | None:
    """None where there is nothing to move."""
    table = pq.ParquetFile(io.BytesIO(content)).read()
    at = table.schema.get_field_index("file_path")
    paths = table.column(at).to_pylist()
    moved = [places.moved(path) for path in paths]
    if moved == paths:
        return None
    column = pa.array(moved, type=table.schema.field(at).type)
    out = io.BytesIO()
    written = table.set_column(at, table.schema.field(at), column)
    pq.write_table(written, out, compression="zstd", row_group_size=max(1, len(moved)))
    return out.getvalue()


def moved_puffin(content: bytes, places: Places) -> bytes | None:
    """Blobs stay where they are: the footer alone names files. None where nothing is to be
    moved."""
    size = int.from_bytes(content[-12:-8], "little", signed=True)
    flags, start = content[-8:-4], len(content) - 12 - size
    if content[-4:] != _PUFFIN or content[start - 4 : start] != _PUFFIN or flags[0] & 1:
        raise ValueError("a Puffin file without a plain footer")
    before = json.loads(content[start : start + size])
    after = _mapped(before, places)
    if after == before:
        return None
    text = json.dumps(after, ensure_ascii=False, separators=(",", ":")).encode()
    length = len(text).to_bytes(4, "little", signed=True)
    return content[:start] + text + length + flags + _PUFFIN


def _mapped(value: Any, places: Places) -> Any:
    if isinstance(value, str):
        return places.moved(value)
    if isinstance(value, list):
        return [_mapped(one, places) for one in value]
    if isinstance(value, dict):
        return {key: _mapped(one, places) for key, one in value.items()}
    return value


def _plain(value: Any) -> Any:
    """What a union holds."""
    return value[1] if isinstance(value, tuple) else value


def _unpacked(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == _GZIP else content


def _damaged(entry: CatalogEntry, reason: str) -> LakeDamaged:
    return LakeDamaged(
        f"lake table {entry.shown} is not whole: {reason}",
        table=entry.shown,
        reason=reason,
        next_step="Put that file back, or use another backup",
    )
