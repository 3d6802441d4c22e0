"""Batches of records in a folder and in buckets: whole by their manifest, and made again the same."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import TableContract
from mirrorlake.config.settings import Namespaces
from mirrorlake.errors import RecordsError
from mirrorlake.ledger import Load, Window
from mirrorlake.records.config import DestinationConfig
from mirrorlake.records.destination import LoadBatch
from mirrorlake.records.files import RecordFiles
from mirrorlake.records.record import ChangeRecord
from mirrorlake.sources.files.store import Store
from mirrorlake.sources.files.stores import store_of
from tests.support import gcs

BUCKET = "records"
PLACE = "json/s/d/t/binlog/20260131"
CONTRACT = TableContract(
    source="s",
    database="d",
    table="t",
    mode="binlog",
    namespaces=Namespaces(raw="r", deduped="d", clean="c"),
)


@pytest.fixture(scope="module")
def of_google() -> Iterator[str]:
    with gcs.emulator(BUCKET) as (endpoint, _):
        yield endpoint


@pytest.fixture(scope="module")
def of_amazon() -> Iterator[str]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    account = {f"aws_{n}": "testing" for n in ("access_key_id", "secret_access_key")}
    client = boto3.client(
        "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", **account
    )
    client.create_bucket(Bucket=BUCKET)
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "gs", pytest.param("s3", marks=pytest.mark.full)])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "folder":
        return store_of(str(tmp_path / "out"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    endpoint = request.getfixturevalue("of_google" if request.param == "gs" else "of_amazon")
    return store_of(f"{request.param}://{BUCKET}/{uuid.uuid4().hex}", endpoint)


def load(seq: int) -> Load:
    window, at = Window("log", None, None, date(2026, 1, 31)), datetime(2026, 1, 31, tzinfo=UTC)
    parts = (seq, f"load-{seq}", 1, CONTRACT.name, "success", "t_v_1", window)
    return Load(*parts, None, 1, at, None, None, None)


def lost() -> None:
    raise RecordsError("another run took it over")


@dataclass
class Source:
    """Gives ten records a load; fails at one of them."""

    fails_at: int = -1
    version: str = "v1"
    given: list[str] = field(default_factory=list)

    def records(self, load: Load, before: Load | None, *, copies: bool) -> Iterator[ChangeRecord]:
        for event in range(1, 11):
            if event == self.fails_at:
                raise RecordsError("no more")
            line = json.dumps({"load": load.seq, "event": event})
            self.given.append(line)
            yield ChangeRecord(f"{event}", "INSERT", load.seq, event, "k", line, f"0-1-{event}")

    def schema(self, load: Load) -> tuple[str, bytes]:
        return self.version, b"{}"


def batch(*seqs: int) -> LoadBatch:
    return LoadBatch(
        loads=[(None, load(seq)) for seq in seqs],
        event=0,
        copies=True,
        check=lambda: None,
        reached=lambda _event, _records: None,
    )


def files(store: Store, **more: Any) -> RecordFiles:
    return RecordFiles(store, DestinationConfig(kind="files", to="x", **more), CONTRACT)


def lines_of(store: Store) -> list[str]:
    found: list[str] = []
    for name in sorted(n for n in store.names(PLACE) if n.endswith("_manifest.json")):
        with store.open(f"{PLACE}/{name}") as stream:
            listed = json.loads(stream.read())
        for entry in listed["files"]:
            with store.open(f"{PLACE}/{entry['name']}") as stream:
                found += stream.read().decode().splitlines()
    return found


def test_a_batch_is_there_once_whatever_failed_before(store: Store) -> None:
    source = Source()
    assert files(store).known() == {}
    assert files(store, max_rows=4).publish(source, batch(1, 2)).files == 5  # type: ignore[arg-type]
    assert files(store).known() == {1: "load-1", 2: "load-2"}
    with pytest.raises(RecordsError, match="no more"):
        files(store, max_rows=2).publish(Source(fails_at=8), batch(3))  # type: ignore[arg-type]
    assert len([n for n in store.names(PLACE) if n.startswith(f"{3:014d}_")]) == 3
    assert len(lines_of(store)) == 20
    # Other bounds make fewer files: what is left of the attempt goes.
    done = files(store).publish(source, batch(3))  # type: ignore[arg-type]
    assert (done.records, done.files, done.position) == (10, 1, "0-1-10")
    assert sorted(n for n in store.names(PLACE) if n.startswith(f"{3:014d}_")) == [
        f"{3:014d}_0.json",
        f"{3:014d}_manifest.json",
    ]
    assert lines_of(store) == source.given
    again = files(store).publish(source, batch(3))  # type: ignore[arg-type]
    assert (again.records, again.files) == (10, 1)
    assert lines_of(store) == source.given[:30]
    with store.open("schemas/s/d/t/v1.json") as stream:
        assert stream.read() == b"{}"


def test_who_lost_its_lease_writes_no_manifest(store: Store) -> None:
    with pytest.raises(RecordsError, match="took it over"):
        files(store).publish(Source(), replace(batch(1), check=lost))  # type: ignore[arg-type]
    assert store.names(PLACE) == []


def test_the_newest_batch_is_the_last_of_the_last_day_that_has_one(store: Store) -> None:
    assert files(store).newest() == {}
    for seqs in ((9,), (10, 11), (2,)):
        files(store).publish(Source(), batch(*seqs))  # type: ignore[arg-type]
    with store.create("json/s/d/t/binlog/20260201/left.json.tmp") as stream:
        stream.write(b"")
    assert files(store).newest() == {10: "load-10", 11: "load-11"}


def test_records_of_another_ledger_stay(store: Store) -> None:
    files(store).publish(Source(), batch(1))  # type: ignore[arg-type]
    other = replace(batch(1), loads=[(None, replace(load(1), load_id="other"))])
    with pytest.raises(RecordsError, match="another ledger's records are there"):
        files(store).publish(Source(), other)  # type: ignore[arg-type]
    with store.create(f"{PLACE}/{9:014d}_manifest.json") as stream:
        stream.write(b"[]")
    with pytest.raises(RecordsError, match="is no manifest of records"):
        files(store).known()
