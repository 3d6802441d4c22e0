"""How far records were published, as one ledger keeps it."""

from __future__ import annotations

from pathlib import Path

from mirrorlake.ledger import Ledger
from mirrorlake.records.ledger import RecordPlaces, RecordProgress
from mirrorlake.records.publisher import RECORDS


def test_progress_of_each_table_and_destination(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    places = RecordPlaces(ledger)
    assert places.of_tables() == {}
    begun = places.begin(RecordProgress("s.d.t", "files"), 7)
    assert (begun.seq, begun.begun) == (0, 7)
    done = places.finish(begun, 7, 40, 2, "0-1-3")
    places.finish(done, 9, 0, 0, None)
    reached = places.reach(RecordProgress("s.d.t", "queue", seq=7), 500, 500)
    places.fail("s.d.t", "queue", "no topic \0")
    found = places.of_tables(["s.d.t"])
    files, queue = found["s.d.t", "files"], found["s.d.t", "queue"]
    assert (files.seq, files.event, files.records, files.files) == (9, 0, 40, 2)
    assert (files.position, files.error) == ("0-1-3", None)
    assert (queue.seq, queue.event, queue.records) == (7, 500, reached.records)
    assert (queue.error, queue.failed_at is None) == ("no topic \N{SYMBOL FOR NULL}", False)
    places.fail("s.d.u", "files", "new")
    assert places.of_tables(["s.d.u"])["s.d.u", "files"].seq == 0
    status = RECORDS.statuses(ledger, {"s.d.t"})["s.d.t"]
    assert (status.state, status.rows, status.version) == ("errored", 540, 7)
    assert status.words == "files: 40 through load 9 at 0-1-3, queue: 500 through load 7"
    places.forgive("s.d.t", ["files"])
    assert places.of_tables(["s.d.t"])["s.d.t", "queue"].error is None
    assert places.of_tables(["s.d.u"])["s.d.u", "files"].error == "new"
    places.forget("s.d.t", "files")
    assert set(places.of_tables(["s.d.t"])) == {("s.d.t", "queue")}
    assert RECORDS.statuses(ledger, {"s.d.other"}) == {}
