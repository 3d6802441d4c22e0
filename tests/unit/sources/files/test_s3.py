"""A landing in S3, by s3fs and moto's server: written, taken and read; refused where it must be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import Config, load_config
from mirrorlake.errors import LandingError
from mirrorlake.landing.files.frame import read_batches
from mirrorlake.landing.files.land import open_taken, take
from mirrorlake.landing.files.listing import look, place_of
from mirrorlake.landing.files.writer import SnapshotWriter
from mirrorlake.landing.first_contract.write import write_landing_contract
from mirrorlake.ledger import Ledger
from mirrorlake.sources.files.layout import TableFolder
from mirrorlake.sources.files.stores import store_of
from tests.support import gcs
from tests.unit.landing.files.test_take import ONE, SCHEMA, no_spark

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def config_of(folder: Path, endpoint: str) -> Config:
    text = {
        "version": 1,
        "ledger": {"url": "sqlite:///ledger.db"},
        "sources": {"feed": {
            "landing": {"url": "s3://landed/a prefix", "endpoint": endpoint},
            "databases": {"d": {"tables": {"t": {"mode": "snapshot", "key": ["id"]}}}}}},
    }  # fmt: skip
    path = folder / "m.yaml"
    path.write_text(json.dumps(text))
    return load_config(path)


def test_what_is_written_is_taken_and_read(endpoint: str, tmp_path: Path) -> None:
    import s3fs

    files: Any = s3fs.S3FileSystem(endpoint_url=endpoint)
    files.mkdir("landed")
    config = config_of(tmp_path, endpoint)
    place = place_of(config, config.snapshot_table("t"))
    ledger = Ledger(config.ledger.url)
    assert look(place, ledger).ready == ()
    sink = store_of("s3://landed/a prefix", endpoint)
    folder = TableFolder("json", "feed", "d", "t", "dq")
    with sink.create(folder.schema_path, replace=True) as stream:
        stream.write(SCHEMA.encode())
    made = SnapshotWriter(sink, folder, ONE, date(2026, 1, 30), packed=True, most=12)
    made.begin()
    for number in range(3):
        made.add(b'{"id": %d}\n' % number)
    assert look(place, ledger).ready == ()
    made.close(3)
    assert [one.id for one in look(place, ledger).ready] == [ONE]
    taken = take(place, ledger, no_spark, ONE)
    rows = [
        row["id"]
        for file in taken.files
        for batch in read_batches(taken.reading, file)
        for row in batch.to_pylist()
    ]
    assert rows == [0, 1, 2]
    with pytest.raises(LandingError, match="is there already"):
        SnapshotWriter(sink, folder, ONE, date(2026, 1, 30), packed=True, most=12).begin()
    path = f"landed/a prefix/{taken.files[1].path}"
    files.pipe_file(path, b"another")
    (again,) = open_taken(place, ledger, [ONE])
    with pytest.raises(LandingError, match="was written again"):
        again.check_files()
    files.rm_file(path)
    with pytest.raises(LandingError, match="is not there any more"):
        again.check_files()


def test_what_is_given_up_leaves_nothing(endpoint: str) -> None:
    import s3fs

    files: Any = s3fs.S3FileSystem(endpoint_url=endpoint)
    files.mkdir("given-up")
    folder = TableFolder("json", "feed", "d", "t", "dq")
    sink = store_of("s3://given-up", endpoint)
    made = SnapshotWriter(sink, folder, ONE, date(2026, 1, 30), packed=False, most=12)
    made.begin()
    for number in range(3):
        made.add(b'{"id": %d}\n' % number)
    made.discard()
    assert files.find("given-up") == []


def test_a_bucket_without_permission_says_so(tmp_path: Path) -> None:
    with gcs.forbidding() as forbidden:
        config = config_of(tmp_path, forbidden)
        place = place_of(config, config.snapshot_table("t"))
        with pytest.raises(LandingError, match="can't be read: PermissionError") as caught:
            look(place, Ledger(config.ledger.url))
        assert "the right to list and to read it" in str(caught.value)


def test_init_looks_into_a_bucket_and_writes_its_schema_there(
    endpoint: str, tmp_path: Path
) -> None:
    import s3fs

    files: Any = s3fs.S3FileSystem(endpoint_url=endpoint)
    files.mkdir("first")
    files.pipe_file(f"first/json/feed/d/t/dq/20260130/{ONE}_0.json", b'{"id": 1}\n{"id": 2}')
    files.pipe_file(f"first/json/feed/d/t/dq/20260130/{ONE}_SUCCESS", b"")
    output = tmp_path / "first.yaml"
    done = write_landing_contract("s3://first", None, output, force=False, endpoint=endpoint)
    assert (done.tables, done.rows) == (1, 2)
    assert done.schemas == ("s3://first/schemas/feed/d/t.json",)
    config = load_config(output)
    assert place_of(config, config.snapshots[0]).schema().types() == (("id", "long"),)
