"""What a real Trino 476 answered is read exactly; what is wrong is one error, without values.

`trino_476.json` was recorded from it: of a table of every type, made by PyIceberg, the snapshot's
number replaced by 7. `tests/integration/operations/trino/test_real_trino.py` asks a real one again.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from base64 import b64decode
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import SecretStr

from mirrorlake.config.sections.readers import TrinoConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.reading import trino
from mirrorlake.destinations.iceberg.reading.trino import read_by_trino
from mirrorlake.errors import LakeError
from tests.support.trino_server import Found, make_certificate, trino_server

RECORDED: dict[str, Found] = json.loads(Path(__file__).with_name("trino_476.json").read_text())
TABLE = Identifier("s_db", "t")
TEXTS = pa.list_(pa.struct([("column", pa.string()), ("text", pa.string())]))
SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "u": pa.decimal128(20, 0),
        "i": pa.int64(),
        "d": pa.decimal128(38, 10),
        "f": pa.float32(),
        "g": pa.float64(),
        "s": pa.large_string(),
        "b": pa.large_binary(),
        "day": pa.date32(),
        "m": pa.timestamp("us"),
        "z": pa.timestamp("us", "UTC"),
        "yes": pa.bool_(),
        'a "B': pa.large_string(),
        "_mirror_original": TEXTS,
    }
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "u": Decimal(2**64 - 1),
        "i": -(2**63),
        "d": Decimal("-1234567890123456789012345678.0123456789"),
        "f": 0.1,
        "g": 0.1,
        "s": "",
        "b": b"\x00\xff",
        "day": dt.date(1, 1, 1),
        "m": dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
        "z": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
        "yes": True,
        'a "B': "-838:59:59",
        "_mirror_original": [
            {"column": "m", "text": "0000-00-00 00:00:00"},
            {"column": "s", "text": "x"},
        ],
    },
    {"id": 2, "_mirror_original": []},
    {
        "id": 3,
        "u": Decimal(0),
        "i": 0,
        "d": Decimal(0),
        "f": 3.4028234663852886e38,
        "g": 5e-324,
        "s": "é漢🙂\x00\n",
        "b": b"",
        "day": dt.date(9999, 12, 31),
        "m": dt.datetime(1, 1, 1),
        "z": dt.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=dt.UTC),
        "yes": False,
        'a "B': "0",
        "_mirror_original": [],
    },
    {
        "id": 4,
        "f": -0.0,
        "g": -0.0,
        "m": dt.datetime(2024, 2, 29, 12, 0, 0, 1),
        "_mirror_original": [],
    },
    {"id": 5, "f": 1.401298464324817e-45, "g": 1.7976931348623157e308, "_mirror_original": []},
]
TYPES = next(iter(RECORDED))


def recorded(statement: str) -> Found:
    return RECORDED[statement]


def server_at(url: str, **more: Any) -> TrinoConfig:
    return TrinoConfig(url=url, user="reader", **{"catalog": "lake", **more})


def read(url: str, table: Identifier = TABLE, version: int = 7, **more: Any) -> pa.Table:
    return pa.Table.from_batches(read_by_trino(server_at(url, **more), table, version, SCHEMA))


def bits(table: pa.Table) -> dict[str, list[bytes]]:
    """The bytes of all floats: -0.0 equals 0.0 otherwise."""
    return {
        name: [
            bytes(buffer) for chunk in table[name].chunks for buffer in chunk.buffers() if buffer
        ]
        for name in ("f", "g")
    }


def test_rows_of_every_type_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trino, "_ROWS", 2)
    wanted = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    with trino_server(recorded) as server:
        batches = list(read_by_trino(server_at(server.url), TABLE, 7, SCHEMA))
        found = pa.Table.from_batches(batches)
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert found.equals(wanted)
    assert bits(found.combine_chunks()) == bits(wanted)
    assert server.statements == list(RECORDED)[:2]
    [*_, sent] = server.headers
    assert sent["x-trino-user"] == "reader"
    assert sent["x-trino-time-zone"] == "UTC"
    assert "authorization" not in sent
    # Rows come by the coordinator's own answers.
    assert "x-trino-query-data-encoding" not in sent


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"table": Identifier("s_db", "nope")}, "Table 'lake.s_db.nope' does not exist"),
        ({"catalog": "nope"}, "Catalog 'nope' not found"),
        ({"version": 5}, "Iceberg snapshot ID does not exists: 5"),
    ],
)
def test_what_trino_refuses_is_said_in_its_words(asked: dict[str, Any], words: str) -> None:
    with trino_server(recorded) as server, pytest.raises(LakeError) as error:
        read(server.url, **asked)
    assert str(error.value).startswith("Trino can't read lake table s_db.")
    assert words in str(error.value)
    assert "query_0" in error.value.next_step


def test_a_column_of_another_type_is_not_compared() -> None:
    def answer(statement: str) -> Found:
        columns = [dict(one) for one in RECORDED[TYPES]["columns"]]
        columns[9] = {
            "name": "m",
            "type": "timestamp(3)",
            "typeSignature": {"rawType": "timestamp", "arguments": [{"kind": "LONG", "value": 3}]},
        }
        return {"columns": columns}

    with trino_server(answer) as server, pytest.raises(LakeError) as error:
        read(server.url)
    assert "column 'm' is read as timestamp(3), and is timestamp(6)." in str(error.value)
    assert len(server.statements) == 1


@pytest.mark.parametrize(("column", "value"), [(9, "12024-02-29 secret"), (3, "1.23456789012345")])
def test_a_value_that_does_not_fit_is_an_error_without_it(column: int, value: str) -> None:
    def answer(statement: str) -> Found:
        found = RECORDED[statement]
        if "data" not in found:
            return found
        rows = [list(row) for row in found["data"]]
        rows[0][column] = value
        return {**found, "data": rows}

    with trino_server(answer) as server, pytest.raises(LakeError) as error:
        read(server.url)
    words = "Trino gave a value of lake table s_db.t that its type can't have. "
    assert str(error.value) == f"{words}Compare the columns with those of another engine"
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_a_server_that_refuses_or_is_not_there_is_named() -> None:
    with trino_server(recorded) as server:
        server.status = 401
        with pytest.raises(LakeError, match=f"Trino at {server.url} can't be queried: error 401"):
            read(server.url)
        url = server.url
    with pytest.raises(LakeError, match=f"Trino at {url} can't be queried") as error:
        read(url)
    assert error.value.retryable


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"{}", b'{"error": "no"}', b"[1]"])
def test_what_is_no_trino_is_said(body: bytes) -> None:
    with trino_server(recorded) as server:
        server.body = body
        with pytest.raises(LakeError) as error:
            read(server.url)
    assert f"Trino's client can't read what {server.url} answers" in str(error.value)


def test_a_password_goes_by_tls_alone_and_into_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path / "trino.pem")
    password = SecretStr("s3cret")
    with trino_server(recorded, certificate) as server:
        with pytest.raises(LakeError, match="can't be queried") as untrusted:
            read(server.url, password=password)
        assert server.statements == []
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        assert read(server.url, password=password).num_rows == len(ROWS)
        [first, _] = server.headers
        assert b64decode(first["authorization"].removeprefix("Basic ")) == b"reader:s3cret"
        server.status = 403
        with pytest.raises(LakeError) as refused:
            read(server.url, password=password)
    for error in (untrusted, refused):
        assert "s3cret" not in repr(error.value) + str(error.value.next_step)


def test_without_its_client_trino_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trino", None)
    with pytest.raises(LakeError, match="which is not installed") as error:
        read("http://127.0.0.1:1")
    assert "readers.trino needs trino (extra mirrorlake[trino])" in str(error.value)
