"""JSON of MySQL: what is read of the log is, letter by letter, what the server prints."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.binlogs import followed, images, log_end, read_log, selected, source_of

Sql = Callable[..., Any]

DOCUMENTS = (
    "JSON_OBJECT('d', CAST('2015-01-15 23:24:25.000012' AS DATETIME(6)), 'e', CAST('2015-01-15' AS DATE))",
    "JSON_ARRAY(CAST('-838:59:59' AS TIME), CAST('00:00:01.5' AS TIME(6)), CAST('12:30' AS TIME))",
    "JSON_ARRAY(CAST(1.50 AS DECIMAL(65,30)), -0.001, 12345678901234567890.5, CAST(-7 AS DECIMAL(5,0)))",
    "JSON_ARRAY(x'00ff', b'101', CAST('blob' AS BINARY), TIMESTAMP '2020-02-02 02:02:02.2')",
    "JSON_OBJECT('blob', CAST(REPEAT('x', 200) AS BINARY))",
    "JSON_ARRAY(ST_GeomFromText('POINT(1 2)'))",
    "JSON_ARRAY(1e22, 1e-7, -1e15, 123456789012345680, 0.1, 1e300, 5e-324, 100000000000000000000, 1.0)",
    "JSON_ARRAY(32767, 32768, -32768, -32769, 2147483647, -2147483649, 18446744073709551615)",
    "CAST('\"\"' AS JSON)",
    "CAST('[]' AS JSON)",
    "CAST('{}' AS JSON)",
    "CAST('[true, false, null, [[], {}]]' AS JSON)",
    "CAST(CONCAT('\"', REPEAT('ü', 5000), '\"') AS JSON)",
    "CAST(CONCAT('[', REPEAT('\"abcdefgh\",', 9000), '1]') AS JSON)",
    "CAST(CONCAT('{', REPEAT('\"a\": 1, ', 10), '\"', REPEAT('k', 70), '\": {\"', REPEAT('z', 600), '\": 1}}') AS JSON)",
)


@pytest.fixture(scope="session")
def server(mysql8: EmbeddedServer) -> EmbeddedServer:
    return mysql8


def letters(seeded: random.Random) -> str:
    every = "aZ0 \"\\/\b\f\n\r\t\0\x01\x1f\x7f\x80é日😀'<&\u2028"
    return "".join(seeded.choice(every) for _ in range(seeded.randint(0, 12)))


def doubles(seeded: random.Random) -> Iterator[float]:
    while True:
        (found,) = struct.unpack("<d", seeded.randbytes(8))
        if found == found and abs(found) != float("inf"):
            yield found
        yield round(seeded.uniform(-1000, 1000), seeded.randint(0, 6))
        yield seeded.uniform(1, 10) * 10.0 ** seeded.randint(-18, 18)
        yield float(seeded.randint(-10, 10)) * 10.0 ** seeded.randint(-3, 20)


def document(seeded: random.Random, numbers: Iterator[float], depth: int = 0) -> Any:
    kind = seeded.randint(0, 8 if depth < 4 else 5)
    if kind < 2:
        return next(numbers)
    if kind < 4:
        return seeded.choice([0, 1, -1, 2**15, -(2**31), 2**31, 2**63 - 1, 2**64 - 1, 77])
    if kind == 4:
        return seeded.choice([None, True, False])
    if kind == 5:
        return letters(seeded)
    size = seeded.randint(0, 6)
    if kind < 8:
        return [document(seeded, numbers, depth + 1) for _ in range(size)]
    return {letters(seeded): document(seeded, numbers, depth + 1) for _ in range(size)}


def test_documents_are_printed_as_the_server_prints_them(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    start = log_end(server)
    sql("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, j JSON)")
    for one in DOCUMENTS:
        sql(f"INSERT INTO t (j) VALUES ({one})")
    seeded = random.Random(54)  # noqa: S311
    numbers = doubles(seeded)
    made = [document(seeded, numbers) for _ in range(700)]
    for few in range(0, len(made), 100):
        texts = [json.dumps(one) for one in made[few : few + 100]]
        places = ", ".join(["(%s)"] * len(texts))
        sql(f"INSERT INTO t (j) VALUES {places}", values=tuple(texts))
    batches = read_log(server, start, followed(source_of(server), database, "t"))
    assert not [stop for batch in batches for stop in batch.stopped]
    wanted = selected(server, database, "t").sort_by("id").column("j").to_pylist()
    found = images(batches, "t").column("j").to_pylist()
    assert len(found) == len(DOCUMENTS) + len(made)
    differing = [pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]]
    assert not differing


def test_partial_updates_stop_the_table(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON)",
        "CREATE TABLE u (id INT PRIMARY KEY)",
        'INSERT INTO t VALUES (1, \'{"a": "some text", "b": 2}\')',
        "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
        "UPDATE t SET j = JSON_SET(j, '$.a', 'other')",
        "SET SESSION binlog_row_value_options = ''",
        "INSERT INTO u VALUES (1)",
    )
    batches = read_log(server, start, followed(source_of(server), database, "t", "u"))
    [stop] = [stop for batch in batches for stop in batch.stopped]
    assert stop.table == "t"
    assert "binlog_row_value_options" in str(stop.error)
    assert images(batches, "t").num_rows == 1
    assert images(batches, "u").num_rows == 1
