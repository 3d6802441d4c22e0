"""What a record says, and its id."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from mirrorlake.config import TableContract
from mirrorlake.config.settings import Namespaces
from mirrorlake.ledger import Load, Window
from mirrorlake.records.record import RecordForm

AT = datetime(2026, 1, 31, 12, 0, 0, 125, UTC)


def form() -> RecordForm:
    spaces = Namespaces(raw="r", deduped="d", clean="c")
    contract = TableContract(
        source="s", database="d", table='t"1', mode="binlog", namespaces=spaces
    )
    window = Window("log", None, None, date(2026, 1, 31))
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    load = Load(
        *(7, "abc", 1, contract.name, "success", "t_v_1", window, None, 1, moment, None, None, None)
    )
    return RecordForm(contract, load, "v1")


@pytest.mark.parametrize(
    ("position", "shown"),
    [
        ("0-1-27", {"gtid": "0-1-27"}),
        (
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:5",
            {"gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:5"},
        ),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:5", None),
        ('odd"name.000003:1234', {"file": 'odd"name.000003', "offset": 1234}),
        ("my:log.1000000:4", {"file": "my:log.1000000", "offset": 4}),
    ],
)
def test_a_row_of_the_log(position: str, shown: dict[str, object] | None) -> None:
    found = form().of_row({"id": "1", "größe": "\u2028\n"}, "UPDATE", 3, '["1"]', position, AT)
    assert "\n" not in found.line
    assert json.loads(found.line) == {
        "data": {"id": "1", "größe": "\u2028\n"},
        "metadata": {
            "ingestion_method": "BINLOG",
            "source": "s",
            "database_name": "d",
            "table_name": 't"1',
            "table_version": "v1",
            "operation": "UPDATE",
            "position": {"load": 7, "event": 3, **(shown or {"gtid": position})},
            "committed_at": "2026-01-31T12:00:00.000125Z",
        },
    }
    assert (found.id, found.load, found.event) == ("abc-3", 7, 3)


def test_a_row_of_a_copy_is_known_by_its_key() -> None:
    first = form().of_row({"id": 1}, "SNAPSHOT", 1, "[1]", None, None)
    again = form().of_row({"id": 1}, "SNAPSHOT", 9, "[1]", None, None)
    other = form().of_row({"id": 2}, "SNAPSHOT", 1, "[2]", None, None)
    assert first.id == again.id != other.id
    metadata = json.loads(first.line)["metadata"]
    assert (metadata["ingestion_method"], metadata["committed_at"]) == ("SNAPSHOT", None)


def test_what_happened_to_the_table() -> None:
    found = form().of_table("ALTER", "BINLOG", {"columns": {"a": "int"}, "filled": {}})
    record = json.loads(found.line)
    assert (record["data"], record["metadata"]["columns"]) == (None, {"a": "int"})
    assert (found.id, found.key) == ("abc-ALTER", "")
    assert form().of_table("TRUNCATE", "BINLOG").id != found.id
