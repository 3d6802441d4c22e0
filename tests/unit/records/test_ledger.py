"""How far records were published, as one ledger keeps it."""

from __future__ import annotations

from pathlib import Path

from mirrorlake.config import Config, Namespaces, TableContract
from mirrorlake.ledger import Ledger
from mirrorlake.records.config import DestinationConfig, RecordsConfig
from mirrorlake.records.ledger import RecordPlaces, RecordProgress
from mirrorlake.records.publisher import RECORDS

CONTRACT = TableContract(
    source="s",
    database="d",
    table="t",
    mode="binlog",
    namespaces=Namespaces(raw="r", deduped="d", clean="c"),
)


def config_of(*destinations: str) -> Config:
    places = {name: DestinationConfig(kind="files", to=f"x/{name}") for name in destinations}
    return Config.model_construct(
        tables=(CONTRACT,), added={"records": RecordsConfig(destinations=places)}
    )


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
    everywhere = config_of("files", "queue")
    status = RECORDS.statuses(everywhere, ledger, {"s.d.t"})["s.d.t"]
    assert (status.state, status.rows, status.version) == ("errored", 540, 7)
    assert status.words == "files: 40 through load 9 at 0-1-3, queue: 500 through load 7"
    # A destination that the contract has no more fails no more; one that comes back goes on.
    status = RECORDS.statuses(config_of("files"), ledger, {"s.d.t"})["s.d.t"]
    assert (status.state, status.words) == ("success", "files: 40 through load 9 at 0-1-3")
    assert RECORDS.statuses(config_of(), ledger, {"s.d.t"}) == {}
    assert RECORDS.statuses(everywhere, ledger, {"s.d.t"})["s.d.t"].state == "errored"
    places.forget("s.d.t", "files")
    assert set(places.of_tables(["s.d.t"])) == {("s.d.t", "queue")}
    assert RECORDS.statuses(everywhere, ledger, {"s.d.other"}) == {}
