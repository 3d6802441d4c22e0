"""Our decoder against the Java connector over the same files of a log, value by value.

The connector is right in most types, and an oracle there: it shares nothing with ours. Where it is
wrong is named, and seen to be: negative times, unsigned numbers, zero dates and those before 1582,
the year 0, bytes that end with zeros; columns and events that MariaDB compresses it does not read at all.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from json import loads
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.sources.mysql.tables import Column
from tests.integration.binlogs import followed, images, log_end, read_log, source_of
from tests.integration.sources.mysql.binlog.test_binlog_mariadb import set_globally
from tests.integration.sources.mysql.test_types import cases_of, make_wide_table
from tests.integration.type_cases import Case
from tests.support.brought_servers import MYSQL, version_of
from tests.support.java_connector import JavaConnector, JavaFailed, java_connector

pytestmark = pytest.mark.full

Sql = Callable[..., Any]
CODECS = {
    **dict.fromkeys(("utf8mb4", "utf8mb3", "utf8", "ascii"), "utf-8"),
    **{"sjis": "shift_jis", "cp932": "cp932", "gbk": "gbk", "gb2312": "gb2312"},
    **{"euckr": "euc_kr", "big5": "big5", "ujis": "euc_jp", "hebrew": "iso8859_8"},
    **{"greek": "iso8859_7", "cp1251": "cp1251", "cp1256": "cp1256", "tis620": "iso8859_11"},
    **{"utf16": "utf-16-be", "utf16le": "utf-16-le", "ucs2": "utf-16-be", "utf32": "utf-32-be"},
}
"""Python's of the server's charsets, where they are the same for what the cases have."""
BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
LABEL = re.compile(r"'((?:[^']|'')*)'")
TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")

UNSIGNED = "an unsigned number in the upper half is negative"
NEGATIVE = "a negative TIME is another one"
NO_DATE = "a date that is none is lost, or is another one"
OLD = "a date before October 15, 1582 is counted by the Julian calendar"
YEAR_0 = "the year 0 is 1900"
SHORT = "bytes of a fixed length have lost the zeros at their end"
ORIGINALS = "not compared: what is kept beside the column"
UNKNOWN = "not compared: a type that it does not know, as its bytes; or a charset"
WRONG = (UNSIGNED, NEGATIVE, NO_DATE, OLD, YEAR_0, SHORT)


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaConnector]:
    with java_connector(tmp_path_factory.mktemp("java")) as found:
        yield found


def file_of_log(server: EmbeddedServer, sql: Sql, *statements: Any) -> tuple[Path, Any]:
    """A file of the log that has what these do alone, and where it begins."""
    sql("FLUSH BINARY LOGS")
    start = log_end(server)
    for statement in statements:
        statement() if callable(statement) else sql(statement)
    sql("FLUSH BINARY LOGS")
    assert start.log is not None
    return server.folder / "data" / start.log.file, start


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)) // timedelta(microseconds=1)


def micros_of_time(text: str) -> int:
    found = TIME.fullmatch(text)
    assert found is not None, text
    sign, hours, minutes, seconds, part = found.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    size = whole * 1_000_000 + int((part or "").ljust(6, "0"))
    return -size if sign else size


def verdict(column: Column, ours: Any, theirs: Any, original: str | None, java: Any) -> str:
    """'' where both have one value; else what the connector is wrong in, or why it is not asked.
    'different' is a fault of ours, or one that nobody knew of."""
    kind = column.data_type
    if ours is None and original is None:
        return "" if theirs is None else "different"
    if original is not None:
        dates = kind in ("date", "datetime", "timestamp")
        return NO_DATE if dates else ORIGINALS
    compare = _COMPARED.get(kind)
    if compare is None:
        return UNKNOWN
    return compare(column, ours, theirs, java)


def _integer(column: Column, ours: Any, theirs: Any, _: Any) -> str:
    if int(ours) == theirs:
        return ""
    bits = BITS[column.data_type]
    return UNSIGNED if column.unsigned and int(ours) - 2**bits == theirs else "different"


def _year(_column: Column, ours: Any, theirs: Any, _: Any) -> str:
    if ours == theirs:
        return ""
    return YEAR_0 if (ours, theirs) == (0, 1900) else "different"


def _decimal(_column: Column, ours: Any, theirs: Any, _: Any) -> str:
    return "" if Decimal(ours) == Decimal(theirs) else "different"


def _real(column: Column, ours: Any, theirs: Any, _: Any) -> str:
    form = "<f" if column.data_type == "float" else "<d"
    return "" if struct.pack(form, ours) == struct.pack(form, float(theirs)) else "different"


def _bits(_column: Column, ours: Any, theirs: Any, _: Any) -> str:
    numbers = [int(one) for one in str(theirs).strip("{}").split(",") if one.strip()]
    return "" if int(ours) == sum(2**number for number in numbers) else "different"


def _date(_column: Column, ours: Any, theirs: Any, _: Any) -> str:
    moment = ours
    if isinstance(ours, date) and not isinstance(ours, datetime):
        moment = datetime(ours.year, ours.month, ours.day, tzinfo=UTC)
    if micros(moment) == theirs:
        return ""
    return OLD if moment.date() < date(1582, 10, 15) else "different"


def _time(_column: Column, ours: Any, theirs: Any, _: Any) -> str:
    wanted = micros_of_time(ours)
    if wanted == theirs:
        return ""
    return NEGATIVE if wanted < 0 else "different"


def _text(column: Column, ours: Any, theirs: Any, _: Any) -> str:
    stored = b64decode(theirs)
    if column.data_type == "char" and isinstance(ours, bytes):
        return _bytes(column, ours, theirs, None)
    codec = CODECS.get(column.charset or "")
    if column.charset == "latin1" and ours.isascii():
        codec = "ascii"
    if codec is None:
        return UNKNOWN
    return "" if ours == stored.decode(codec) else "different"


def _bytes(column: Column, ours: Any, theirs: Any, _: Any) -> str:
    stored = b64decode(theirs)
    if ours == stored:
        return ""
    short = column.data_type == "binary" and ours == stored.ljust(column.length or 0, b"\0")
    return SHORT if short else "different"


def _enum(column: Column, ours: Any, theirs: Any, _: Any) -> str:
    labels = [label.replace("''", "'") for label in LABEL.findall(column.column_type)]
    return "" if labels[theirs - 1] == ours else "different"


def _set(column: Column, ours: Any, theirs: Any, _: Any) -> str:
    labels = [label.replace("''", "'") for label in LABEL.findall(column.column_type)]
    held = [label for number, label in enumerate(labels) if theirs >> number & 1]
    return "" if ",".join(held) == ours else "different"


def _json(_column: Column, ours: Any, theirs: Any, java: JavaConnector) -> str:
    # It prints doubles as what they are to the last bit.
    return "" if loads(ours) == loads(java.json_text(b64decode(theirs))) else "different"


_COMPARED: dict[str, Callable[[Column, Any, Any, Any], str]] = {
    **dict.fromkeys(BITS, _integer),
    **dict.fromkeys(("float", "double"), _real),
    **dict.fromkeys(("date", "datetime", "timestamp"), _date),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _text),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _bytes),
    **dict.fromkeys(
        ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"), _bytes
    ),
    **dict.fromkeys(("multipolygon", "geometrycollection", "geomcollection"), _bytes),
    **{"decimal": _decimal, "year": _year, "bit": _bits, "time": _time},
    **{"enum": _enum, "set": _set, "json": _json},
}


def compared(
    server: EmbeddedServer, database: str, sql: Sql, java: JavaConnector, cases: list[Case]
) -> dict[str, list[Any]]:
    """What became of each value of a table of these types: see `verdict`."""
    path, start = file_of_log(server, sql, lambda: make_wide_table(sql, cases))
    source = source_of(server)
    ours = images(read_log(server, start, followed(source, database, "wide")), "wide").to_pylist()
    with session(source, database) as connection:
        columns = read_table(connection, database, "wide").columns
    theirs = java.inserted(path)["wide"]
    sql("DROP TABLE wide")
    assert len(ours) == len(theirs) > 0
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for row, cells in zip(ours, theirs, strict=True):
        kept = {one["column"]: one["text"] for one in row.get(ORIGINAL) or ()}
        assert len(cells) == len(columns)
        for column, cell in zip(columns, cells, strict=True):
            name = column.in_mysql
            words = verdict(column, row[name], cell, kept.get(name), java)
            found[words].append((column.column_type, row[name], cell, kept.get(name)))
    return found


def test_every_type_and_boundary(
    server: EmbeddedServer, database: str, sql: Sql, java: JavaConnector
) -> None:
    cases = cases_of(server)
    size = len(cases)
    if not isinstance(server, MariaDB) and version_of(MYSQL) is None:
        # It counts YEAR among numbers with a sign, which 8.0.12 does not, and ends within these.
        with pytest.raises(JavaFailed, match="TABLE_MAP"):
            compared(server, database, sql, java, cases)
        sql("DROP TABLE wide")
        size = 5
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for first in range(0, len(cases), size):
        some = compared(server, database, sql, java, cases[first : first + size])
        for words, cells in some.items():
            found[words] += cells
    assert not found["different"], found["different"]
    assert all(found[words] for words in WRONG), [w for w in WRONG if not found[w]]
    print({words or "equal": len(cells) for words, cells in found.items()})
    assert len(found[""]) > 3 * sum(len(cells) for words, cells in found.items() if words)


@pytest.mark.parametrize("on_both_servers", ["mariadb"], indirect=True)
def test_what_mariadb_compresses_it_does_not_read(
    server: EmbeddedServer, database: str, sql: Sql, java: JavaConnector
) -> None:
    assert isinstance(server, MariaDB)
    path, start = file_of_log(
        server,
        sql,
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(2000) COMPRESSED)",
        "INSERT INTO t VALUES (1, REPEAT('ab é', 300)), (2, '')",
    )
    found = images(read_log(server, start, followed(source_of(server), database, "t")), "t")
    assert found.column("a").to_pylist() == ["ab é" * 300, ""]
    with pytest.raises(JavaFailed):
        assert len(java.inserted(path).get("t", [])) == 2, "they are left out"
    with set_globally(server, log_bin_compress=1, log_bin_compress_min_len=10):
        path, start = file_of_log(
            server,
            sql,
            "CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(1000))",
            "INSERT INTO u VALUES (1, REPEAT('a', 1000))",
        )
    found = images(read_log(server, start, followed(source_of(server), database, "u")), "u")
    assert found.column("v").to_pylist() == ["a" * 1000]
    assert not java.inserted(path).get("u"), "compressed events were passed over in silence"
