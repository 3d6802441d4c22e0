"""What somebody may put into a landing to harm whoever reads it: each ends in one clear error."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.errors import LandingError, SchemaError
from mirrorlake.landing.files.columns import LandedColumn, LandedSchema
from mirrorlake.landing.files.frame import read_batches
from mirrorlake.landing.files.limits import FREE_BYTES, Limits
from mirrorlake.landing.files.listing import look
from mirrorlake.landing.files.parquet import check_parquet
from mirrorlake.landing.files.records import LandedFile, Reading
from mirrorlake.landing.files.snapshots import read_manifest
from mirrorlake.sources.files.folder_store import FolderStore
from tests.unit.landing.files.test_take import ONE, Landing

IDS = LandedSchema((LandedColumn("id", "long"),))
DEEP = "[" * 200_000
TINY = Limits(manifest=1024, record=1024, expansion=1)


def reading(folder: Path, form: str, limits: Limits, name: str) -> tuple[Reading, LandedFile]:
    store = FolderStore(str(folder))
    entry = store.entry(name)
    assert entry is not None
    file = LandedFile(name, entry.bytes, entry.version)
    return Reading(store, "f.d.t", form, IDS, limits=limits), file


def rows(folder: Path, form: str, limits: Limits, name: str) -> int:
    return sum(batch.num_rows for batch in read_batches(*reading(folder, form, limits, name)))


@pytest.mark.parametrize("what", ["chunk", "folder", "manifest", "schema"])
def test_a_link_that_leads_out_of_the_landing(tmp_path: Path, what: str) -> None:
    landing = Landing(tmp_path)
    folder = landing.land(ONE, '{"id": 1}')
    place = {
        "chunk": folder / f"{ONE}_0.json",
        "folder": folder,
        "manifest": folder / f"{ONE}_manifest.json",
        "schema": landing.root / "schemas/feed/d/t.json",
    }[what]
    outside = tmp_path / "outside" / place.name
    outside.parent.mkdir()
    place.rename(outside)
    place.symlink_to(outside)
    if what == "manifest":
        assert "leads out of the landing" in look(landing.place, landing.ledger).refused[ONE]
        return
    with pytest.raises(LandingError, match=r"is a link that leads out of the landing") as caught:
        landing.take(ONE)
    assert not caught.value.retryable


def test_a_link_within_the_landing_and_one_to_it_are_followed(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    folder = landing.land(ONE, '{"id": 1}')
    chunk = folder / f"{ONE}_0.json"
    chunk.rename(landing.root / "kept.json")
    chunk.symlink_to(landing.root / "kept.json")
    landing.root.rename(tmp_path / "elsewhere")
    landing.root.symlink_to(tmp_path / "elsewhere")
    assert [one.path.rpartition("/")[2] for one in landing.take(ONE).files] == [chunk.name]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DEEP, "is no manifest of version 1"),
        ('{"version": 1, "files": [{"name": "a", "bytes": 1e999}]}', "is no manifest"),
        (json.dumps({"version": 1, "files": [], "note": "x" * 2000}), "is larger than 1 KB"),
    ],
    ids=["nested", "a number that is none", "large"],
)
def test_manifests(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "m.json").write_text(text)
    limits = Limits() if words.startswith("is no") else TINY
    with pytest.raises(LandingError, match=words):
        read_manifest(FolderStore(str(tmp_path)), "m.json", limits)


def test_a_schema_of_nested_brackets_or_of_any_size(tmp_path: Path) -> None:
    landing = Landing(tmp_path, max_manifest="1k")
    landing.write("schemas/feed/d/t.json", DEEP[:1000])
    with pytest.raises(SchemaError, match="is no JSON"):
        landing.place.schema()
    landing.write("schemas/feed/d/t.json", DEEP)
    with pytest.raises(LandingError, match=r"is larger than 1 KB.*raise snapshot.max_manifest"):
        landing.place.schema()
    landing = Landing(tmp_path)
    landing.write("schemas/feed/d/t.json", DEEP)
    with pytest.raises(SchemaError, match="is no JSON"):
        landing.place.schema()


@pytest.mark.parametrize("form", ["json", "csv"])
def test_one_record_that_is_too_long(tmp_path: Path, form: str) -> None:
    long = {"json": '{"id": 1' + " " * 1100 + "}\n", "csv": '"' + "\n" * 1100}[form]
    (tmp_path / f"a.{form}").write_text('{"id": 0}\n' + long if form == "json" else "id\n" + long)
    with pytest.raises(LandingError, match=r"line 2: (is longer|.*does not end) .*1 KB"):
        rows(tmp_path, form, TINY, f"a.{form}")
    assert rows(tmp_path, "json", Limits(), "a.json") == 2 if form == "json" else True


def zstd(text: bytes) -> bytes:
    return pa.Codec("zstd").compress(text, asbytes=True)


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("zst", zstd)])
def test_a_small_file_that_expands_without_end(
    tmp_path: Path, ending: str, pack: Callable[[bytes], Any]
) -> None:
    line = b'{"id": 1' + b" " * 2**20 + b"}\n"
    name = f"a.json.{ending}"
    (tmp_path / name).write_bytes(pack(line * (FREE_BYTES // len(line) + 1)))
    with pytest.raises(LandingError, match=rf"{name} has \d+ bytes and expands to more than"):
        rows(tmp_path, "json", Limits(expansion=1), name)
    (tmp_path / name).write_bytes(pack(line * 3))
    assert rows(tmp_path, "json", Limits(expansion=1), name) == 3


def test_a_parquet_file_that_expands_without_end(tmp_path: Path) -> None:
    for name, count in (("a", FREE_BYTES // 8 + 8), ("b", 1000)):
        zeros = pa.table({"id": pa.repeat(pa.scalar(0, pa.int64()), count)})
        path = tmp_path / f"{name}.parquet"
        pq.write_table(zeros, path, compression="zstd", use_dictionary=False)
    with pytest.raises(LandingError, match=r"a.parquet has \d+ bytes and expands to more"):
        check_parquet(*reading(tmp_path, "parquet", TINY, "a.parquet"))
    check_parquet(*reading(tmp_path, "parquet", TINY, "b.parquet"))
