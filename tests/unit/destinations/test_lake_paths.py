"""Paths in a lake's own files, written for another place: read back by PyIceberg."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.catalog.entries import CatalogEntry
from mirrorlake.destinations.iceberg.storage.file_store import FileStore
from mirrorlake.destinations.iceberg.warehouse.avro_files import AvroFile, read_avro, write_avro
from mirrorlake.destinations.iceberg.warehouse.lake_paths import (
    LakePaths,
    Places,
    moved_parquet,
    moved_puffin,
)
from mirrorlake.errors import LakeDamaged, LakeError

ROWS = pa.table({"id": pa.array([1, 2, 3]), "s": ["a", "b", "file:///srv/old/x"]})
PLACES = Places.of(["file:///srv/old"], "file:///srv/a new place")

POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ],
    {"delete-type": "position"},
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two commits."""
    old = tmp_path / "old"
    old.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{old}")
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", ROWS.schema)
    made.append(ROWS)
    made.append(ROWS)
    return made.refresh()


def entry_of(table: Table) -> CatalogEntry:
    return CatalogEntry("n", "t", "TABLE", table.metadata_location)


def paths_in(folder: Path, old: Path) -> LakePaths:
    store = FileStore(LakeConfig(), str(folder))
    return LakePaths(store, Places.of([f"file://{old}"], store.root))


def manifests_of(table: Table) -> list[Path]:
    return sorted(Path(table.location().removeprefix("file://")).rglob("*.avro"))


def test_every_file_is_reached_once(table: Table, tmp_path: Path) -> None:
    found = list(paths_in(tmp_path / "old", tmp_path / "old").reached([entry_of(table)]))
    assert len(found) == len(set(found)) == 1 + 2 + 2 + 2  # metadata, lists, manifests, data
    assert all((tmp_path / "old" / name).is_file() for name in found)


def test_a_file_that_a_commit_names_by_itself_is_reached(table: Table, tmp_path: Path) -> None:
    at = f"{table.location()}/fold/1.json"
    path = Path(at.removeprefix("file://"))
    path.parent.mkdir()
    path.write_text("{}")
    table.append(ROWS, {"mirrorlake.fold-state": at, "other": f"{table.location()}/fold/gone"})
    old = tmp_path / "old"
    found = list(paths_in(old, old).reached([entry_of(table.refresh())]))
    assert [old / name for name in found if "/fold/" in name] == [path]


def test_a_folder_is_written_for_where_it_is(table: Table, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "a new place"
    shutil.copytree(old, new)
    beside = next(new.rglob("*.avro"))
    (beside.parent / f".{beside.name}.crc").write_bytes(b"Hadoop's")
    entry = entry_of(table)
    shutil.rmtree(old)
    paths_in(new, old).rewrite(entry)
    at = entry.metadata.replace(f"{old}/", f"{new}/")
    assert f"{old}/" not in Path(at.removeprefix("file://")).read_text("utf-8")
    assert not list(new.rglob("*.crc"))
    found = StaticTable.from_metadata(at)
    assert found.scan().to_arrow().num_rows == 6
    for snapshot in found.snapshots():
        for manifest in snapshot.manifests(found.io):
            path = Path(manifest.manifest_path.removeprefix("file://"))
            assert path.is_relative_to(new)
            assert path.stat().st_size == manifest.manifest_length
    # Again, it changes nothing.
    before = {p: p.stat().st_ino for p in new.rglob("*") if p.is_file()}
    paths_in(new, old).rewrite(entry)
    assert {p: p.stat().st_ino for p in new.rglob("*") if p.is_file()} == before


def test_a_file_that_is_gone_or_elsewhere_is_named(table: Table, tmp_path: Path) -> None:
    old = tmp_path / "old"
    store = FileStore(LakeConfig(), str(old))
    paths = LakePaths(store, Places.of(["file:///srv/other"], "file:///srv/new"))
    with pytest.raises(LakeError, match=r"names file://.*which is not in its lake"):
        list(paths.reached([entry_of(table)]))
    next(p for p in old.rglob("*.avro") if not p.name.startswith("snap-")).unlink()
    with pytest.raises(FileNotFoundError):
        list(paths_in(old, old).reached([entry_of(table)]))
    with pytest.raises(LakeDamaged, match="is not there"):
        paths_in(old, tmp_path / "older").rewrite(entry_of(table))


def test_avro_is_written_as_it_was_read(table: Table) -> None:
    for path in manifests_of(table):
        read = read_avro(path.read_bytes())
        assert read.records
        assert read_avro(write_avro(read)) == read


@pytest.mark.parametrize("cut", [0, 3, 100, -5])
def test_an_avro_file_that_is_cut_is_refused(cut: int, table: Table) -> None:
    with pytest.raises(ValueError, match=r"cut|no Avro|where it says"):
        read_avro(manifests_of(table)[0].read_bytes()[:cut])


def test_deleted_rows_are_named_at_the_new_place() -> None:
    rows = [["file:///srv/old/n/t/1.parquet", "file:///srv/old/n/t/2.parquet"], [3, 0]]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows, schema=POSITIONS), sink)
    moved = moved_parquet(sink.getvalue().to_pybytes(), PLACES)
    assert moved is not None
    read = pq.read_table(pa.BufferReader(moved))
    assert read["file_path"].to_pylist() == [
        "file:///srv/a new place/n/t/1.parquet",
        "file:///srv/a new place/n/t/2.parquet",
    ]
    assert read["pos"].to_pylist() == [3, 0]
    assert read.schema.field(0).metadata == {b"PARQUET:field_id": b"2147483546"}
    assert (read.schema.metadata or {})[b"delete-type"] == b"position"
    assert moved_parquet(moved, PLACES) is None


def delete_a_row(table: Table) -> None:
    """Add a file of deleted rows to the newest snapshot, as Spark writes one: PyIceberg can't."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    listed = Path(snapshot.manifest_list.removeprefix("file://"))
    manifests = read_avro(listed.read_bytes())
    data = read_avro(
        Path(manifests.records[0]["manifest_path"].removeprefix("file://")).read_bytes()
    )
    record = copy.deepcopy(data.records[0])
    target = record["data_file"]["file_path"]
    folder = table.location().removeprefix("file://")
    deletes, manifest = Path(f"{folder}/data/deletes.parquet"), Path(f"{folder}/metadata/d-m0.avro")
    pq.write_table(pa.table({"file_path": [target], "pos": [0]}, POSITIONS), deletes)
    bounds = (1, [{"key": 2147483546, "value": target.encode()}])
    record["data_file"] |= {"content": 1, "file_path": f"file://{deletes}", "record_count": 1}
    record["data_file"] |= {"file_size_in_bytes": deletes.stat().st_size}
    record["data_file"] |= {"lower_bounds": bounds, "upper_bounds": bounds}
    header = {**data.header, "content": b"deletes"}
    manifest.write_bytes(write_avro(AvroFile(header, data.sync, [record])))
    added = copy.deepcopy(manifests.records[0])
    added |= {"manifest_path": f"file://{manifest}", "content": 1}
    added |= {"manifest_length": manifest.stat().st_size}
    manifests.records.append(added)
    listed.write_bytes(write_avro(manifests))


def test_rows_stay_deleted_at_the_new_place(table: Table, tmp_path: Path) -> None:
    delete_a_row(table)
    assert table.scan().to_arrow().num_rows == 5
    old, new = tmp_path / "old", tmp_path / "a new place"
    old.rename(new)
    paths = paths_in(new, old)
    paths.rewrite(entry_of(table))
    found = StaticTable.from_metadata(table.metadata_location.replace(f"{old}/", f"{new}/"))
    assert found.scan().to_arrow().num_rows == 5
    (file,) = (row for row in found.inspect.delete_files().to_pylist())
    there = Path(file["file_path"].removeprefix("file://"))
    assert file["file_size_in_bytes"] == there.stat().st_size
    assert dict(file["lower_bounds"])[2147483546].decode().startswith(f"file://{new}/")


def test_a_puffin_file_keeps_its_blobs() -> None:
    vector: dict[str, Any] = {"type": "deletion-vector-v1", "offset": 4, "length": 4}
    vector["properties"] = {"referenced-data-file": "file:///srv/old/n/t/1.parquet"}
    text = json.dumps({"blobs": [vector]}).encode()
    ending = len(text).to_bytes(4, "little") + bytes(4) + b"PFA1"
    moved = moved_puffin(b"PFA1\x01\x02\x03\x04PFA1" + text + ending, PLACES)
    assert moved is not None
    assert moved[:12] == b"PFA1\x01\x02\x03\x04PFA1"
    length = int.from_bytes(moved[-12:-8], "little")
    assert len(moved) == 12 + length + 12
    vector["properties"] = {"referenced-data-file": "file:///srv/a new place/n/t/1.parquet"}
    assert json.loads(moved[12 : 12 + length]) == {"blobs": [vector]}
    assert moved_puffin(moved, PLACES) is None
    with pytest.raises(ValueError, match="plain footer"):
        moved_puffin(b"PFA1" + bytes(40), PLACES)
