"""A landing in Google Cloud Storage: listed from a name on, read by generation, written whole."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from google.cloud import storage

from mirrorlake.config import load_config
from mirrorlake.errors import LandingError
from mirrorlake.landing.files.frame import read_batches
from mirrorlake.landing.files.land import open_taken, take
from mirrorlake.landing.files.listing import Place, look, place_of
from mirrorlake.landing.files.writer import SnapshotWriter
from mirrorlake.landing.first_contract.write import write_landing_contract
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.ledger import Ledger
from mirrorlake.sources.files.gcs_store import GcsStore
from mirrorlake.sources.files.layout import TableFolder
from mirrorlake.sources.files.stores import store_of
from tests.support import gcs
from tests.unit.landing.files.test_take import ONE, SCHEMA, THREE, TWO, no_spark

BUCKET = "landed"


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[str, storage.Client]]:
    with gcs.emulator(BUCKET) as started:
        yield started


class Feed:
    """A table in a bucket, under a prefix of the test's own."""

    def __init__(self, folder: Path, endpoint: str, prefix: str) -> None:
        self.url, self.endpoint = f"gs://{BUCKET}/{prefix}", endpoint
        text = {
            "version": 1,
            "ledger": {"url": "sqlite:///ledger.db"},
            "sources": {"feed": {
                "landing": {"url": self.url, "endpoint": endpoint},
                "databases": {"d": {"tables": {"t": {"mode": "snapshot", "key": ["id"]}}}}}},
        }  # fmt: skip
        path = folder / "m.yaml"
        path.write_text(json.dumps(text))
        self.config = load_config(path)
        self.ledger = Ledger(self.config.ledger.url)

    @property
    def place(self) -> Place:
        return place_of(self.config, self.config.snapshot_table("t"))

    def land(self, snapshot: int, *lines: bytes, whole: bool = True) -> SnapshotWriter:
        sink = store_of(self.url, self.endpoint)
        folder = TableFolder("json", "feed", "d", "t", "dq")
        text = str(snapshot)
        day = date(int(text[:4]), int(text[4:6]), int(text[6:8]))
        made = SnapshotWriter(sink, folder, snapshot, day, packed=True, most=12)
        made.begin()
        for line in lines:
            made.add(line)
        with sink.create(folder.schema_path, replace=True) as stream:
            stream.write(SCHEMA.encode())
        if whole:
            made.close(len(lines))
        return made

    def ready(self) -> list[int]:
        return [one.id for one in look(self.place, self.ledger).ready]


@pytest.fixture
def feed(store: tuple[str, storage.Client], tmp_path: Path, request: Any) -> Feed:
    return Feed(tmp_path, store[0], f"{request.node.name}/größe 1")


def test_what_is_written_is_taken_and_read(feed: Feed) -> None:
    feed.land(ONE, b'{"id": 1}\n', b'{"id": 2}\n', b'{"id": 3}\n')
    feed.land(THREE, b'{"id": 4}\n', whole=False)
    assert feed.ready() == [ONE]
    taken = take(feed.place, feed.ledger, no_spark, ONE)
    assert taken.record.files == 3
    rows = [
        row
        for file in taken.files
        for batch in read_batches(taken.reading, file)
        for row in batch.to_pylist()
    ]
    assert rows == [{"id": 1}, {"id": 2}, {"id": 3}]
    # The store's own digests: nothing was read for them; they are those of the manifest.
    listed = LandedSnapshots(feed.ledger).landed_files("feed.d.t", ONE)
    assert all(file.digest.startswith("md5:") for file in listed)


def test_another_object_under_a_known_name_is_refused(
    feed: Feed, store: tuple[str, storage.Client]
) -> None:
    feed.land(ONE, b'{"id": 1}\n')
    taken = take(feed.place, feed.ledger, no_spark, ONE)
    blob = (
        store[1].bucket(BUCKET).blob(f"{feed.url.partition(BUCKET + '/')[2]}/{taken.files[0].path}")
    )
    blob.upload_from_string(b"another")
    (again,) = open_taken(feed.place, feed.ledger, [ONE])
    with pytest.raises(LandingError, match="was written again"):
        again.check_files()
    with pytest.raises(LandingError, match="was written again"):
        list(read_batches(again.reading, again.files[0]))
    blob.delete()
    with pytest.raises(LandingError, match="is not there any more"):
        again.check_files()


def test_a_manifest_that_says_another_digest_is_refused(
    feed: Feed, store: tuple[str, storage.Client]
) -> None:
    made = feed.land(ONE, b'{"id": 1}\n', whole=False)
    made.close(1)
    name = f"json/feed/d/t/dq/20260130/{ONE}_manifest.json"
    blob = store[1].bucket(BUCKET).blob(f"{feed.url.partition(BUCKET + '/')[2]}/{name}")
    told = json.loads(blob.download_as_bytes())
    told["files"][0]["md5"] = "AAAAAAAAAAAAAAAAAAAAAA=="
    blob.upload_from_string(json.dumps(told))
    with pytest.raises(LandingError, match="its md5 is another one"):
        take(feed.place, feed.ledger, no_spark, ONE)


def test_only_what_may_be_new_is_listed(feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    feed.land(ONE, b'{"id": 1}\n')
    feed.land(THREE, b'{"id": 2}\n')
    take(feed.place, feed.ledger, no_spark, THREE)
    caplog.set_level(logging.INFO, "gcp_storage_emulator")
    assert feed.ready() == [ONE, THREE]
    asked = [r.getMessage() for r in caplog.records if "GET /storage" in r.getMessage()]
    assert "delimiter" in asked[0]  # the names of days, of which those of the last two are listed
    assert len(asked) < 6  # the folders, and each day once; one object's entry for the manifest


def test_what_is_given_up_leaves_nothing(feed: Feed, store: tuple[str, storage.Client]) -> None:
    made = feed.land(ONE, b'{"id": 1}\n', b'{"id": 2}\n', whole=False)
    made.discard()
    prefix = feed.url.partition(BUCKET + "/")[2]
    names = [blob.name for blob in store[1].list_blobs(BUCKET, prefix=f"{prefix}/json")]
    assert names == []
    feed.land(TWO, b'{"id": 1}\n')
    with pytest.raises(LandingError, match="is there already"):
        feed.land(TWO, b'{"id": 1}\n')
    assert feed.ready() == [TWO]


def test_a_bucket_without_permission_says_so() -> None:
    with gcs.forbidding() as endpoint:
        store = GcsStore(f"gs://{BUCKET}", endpoint)
        with pytest.raises(LandingError) as caught:
            store.folders("json/feed/d/t/dq", "")
        told = str(caught.value)
        assert "gs://landed/json/feed/d/t/dq can't be read: Forbidden 403" in told
        assert "the right to list and to read it" in told
        assert not caught.value.retryable
        with (
            pytest.raises(LandingError, match="Forbidden 403"),
            store_of(f"gs://{BUCKET}", endpoint).create("x") as stream,
        ):
            stream.write(b"x")


def test_a_bucket_that_is_not_there_says_so(store: tuple[str, storage.Client]) -> None:
    with pytest.raises(LandingError, match="gs://nowhere/x can't be read: NotFound 404"):
        GcsStore("gs://nowhere", store[0]).folders("x", "")


def test_init_looks_into_a_bucket_and_writes_its_schema_there(feed: Feed, tmp_path: Path) -> None:
    output = tmp_path / "first.yaml"
    day = f"json/feed/d/t/dq/20260130/{ONE}"
    for name, text in (
        ("_0.json", b'{"id": 1, "v": 1.25}\n{"id": 2, "v": 1.50}'),
        ("_SUCCESS", b""),
    ):
        with store_of(feed.url, feed.endpoint).create(day + name) as stream:
            stream.write(text)
    done = write_landing_contract(feed.url, None, output, force=False, endpoint=feed.endpoint)
    assert (done.tables, done.rows) == (1, 2)
    assert done.schemas == (f"{feed.url}/schemas/feed/d/t.json",)
    config = load_config(output)
    (contract,) = config.snapshots
    assert place_of(config, contract).schema().types() == (("id", "long"), ("v", "decimal(38,2)"))
