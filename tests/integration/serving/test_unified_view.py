"""The view over raw's versions: every column that one of them has, in a type that holds them all,
with each row's value or its text, whatever the reader's session is set to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.views import forget_view, read_view
from mirrorlake.operations.checking.check_layers import prove_raw_layer
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FULL: dict[str, Any] = {"mode": "full", "key": ["id"]}
SETTINGS = (
    ("UTC", "true"), ("America/New_York", "true"), ("Asia/Kolkata", "false"), ("UTC", "false"),
)  # fmt: skip
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def reader(place: Place) -> Iterator[Any]:
    """A session of the module's own, whose settings nobody else sees."""
    session = place.spark.get().newSession()
    yield session
    session.catalog.clearCache()


def view_of(workspace: Workspace) -> Identifier:
    [contract] = workspace.config.tables
    return Identifier(contract.namespaces.raw, contract.table)


def sync(workspace: Workspace) -> None:
    [contract] = workspace.config.tables
    sync_table(workspace, contract)


def spark_type(field_type: Any) -> str:
    """Spark's name of a type in Iceberg's words; of an originals' list, its elements' too."""
    if field_type.is_primitive:
        kind = str(field_type).replace(" ", "")
        return {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}.get(
            kind, kind
        )
    assert str(field_type).startswith("list<struct<")
    return "array<struct<column:string,text:string>>"


def plain(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; instants by UTC, as texts."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp("us", "UTC"))
        return [value and f"{value:%Y-%m-%d %H:%M:%S.%f}Z" for value in column.to_pylist()]
    return column.to_pylist()


def shown(workspace: Workspace, reader: Any) -> tuple[list[tuple[str, str]], Rows]:
    """The source's columns of the view with Spark's types, and its rows by version, then as they
    are sorted; proven to be the same in every session and to be what the catalog declares."""
    name = view_of(workspace)
    declared = read_view(workspace.lake, name)
    assert declared is not None
    first: tuple[list[tuple[str, str]], Rows] | None = None
    for zone, strict in SETTINGS:
        reader.conf.set("spark.sql.session.timeZone", zone)
        reader.conf.set("spark.sql.ansi.enabled", strict)
        frame = reader.table(name.sql)
        kinds = [(f.name, f.dataType.simpleString()) for f in frame.schema.fields]
        assert kinds == [(f.name, spark_type(f.field_type)) for f in declared.schema.fields]
        computed = reader.sql(declared.sql).schema
        assert [(f.name, f.dataType.simpleString()) for f in computed.fields] == kinds
        rows = frame.toArrow()
        assert rows.column_names == [kind[0] for kind in kinds]
        ours = [number for number, kind in enumerate(kinds) if not kind[0].startswith("_mirror_")]
        columns = [plain(rows.column(number)) for number in ours]
        loads = rows["_mirror_seq"].to_pylist()
        found = sorted(zip(loads, *columns, strict=True), key=str)
        found.sort(key=lambda row: row[0])
        seen = ([kinds[number] for number in ours], [row[1:] for row in found])
        assert first is None or seen == first, (zone, strict)
        first = seen
    assert first is not None
    return first


def test_the_published_example(sql: Sql, engine_for: EngineFor, reader: Any) -> None:
    sql(
        "CREATE TABLE customer (id INT NOT NULL PRIMARY KEY, full_name VARCHAR(50))",
        "INSERT INTO customer VALUES (1, 'Ann'), (-2, NULL), (2147483647, '')",
    )
    workspace = engine_for({"customer": FULL})
    sync(workspace)
    assert shown(workspace, reader) == (
        [("id", "int"), ("full_name", "string")],
        [(-2, None), (1, "Ann"), (2147483647, "")],
    )
    sql(
        "ALTER TABLE customer MODIFY id VARCHAR(36) CHARACTER SET ascii NOT NULL, "
        "DROP full_name, ADD email VARCHAR(80)",
        "DELETE FROM customer WHERE id = '-2'",
        "INSERT INTO customer VALUES ('9f-07', 'x@y.example'), ('007', NULL)",
    )
    sync(workspace)
    assert shown(workspace, reader) == (
        [("id", "string"), ("email", "string"), ("full_name", "string")],
        [
            ("-2", None, None),
            ("1", None, "Ann"),
            ("2147483647", None, ""),
            ("007", None, None),
            ("1", None, None),
            ("2147483647", None, None),
            ("9f-07", "x@y.example", None),
        ],
    )
    before, now = (
        v.hash for v in workspace.ledger.schema_versions(workspace.config.tables[0].name)
    )
    query = f"SELECT id, max_by(_mirror_version, _mirror_seq) FROM {view_of(workspace).sql}"
    found = {str(key): version for key, version in reader.sql(f"{query} GROUP BY id").collect()}
    assert found == {"-2": before, **dict.fromkeys(("1", "2147483647", "007", "9f-07"), now)}


@pytest.mark.full
def test_three_versions_keep_what_each_held(sql: Sql, engine_for: EngineFor, reader: Any) -> None:
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT, at DATETIME(3), day DATE)",
        "INSERT INTO t VALUES (1, -5, '2026-03-08 02:30:00.120', '2026-03-08'), "
        "(2, 2147483647, '2026-11-01 01:30:00', '9999-12-31'), (3, NULL, NULL, NULL)",
    )
    workspace = engine_for({"t": FULL})
    sync(workspace)
    sql(
        "ALTER TABLE t MODIFY n DECIMAL(12,2), MODIFY at TIMESTAMP(6) NULL, MODIFY day DATETIME",
        "UPDATE t SET n = 0.05, at = '2026-10-25 00:30:00.000001' WHERE id = 2",
    )
    sync(workspace)
    first: Rows = [
        (1, "-5.00", "2026-03-08 02:30:00.120000Z", "2026-03-08 00:00:00"),
        (2, "2147483647.00", "2026-11-01 01:30:00.000000Z", "9999-12-31 00:00:00"),
        (3, None, None, None),
    ]
    second: Rows = [
        (1, "-5.00", "2026-03-08 02:30:00.120000Z", "2026-03-08 00:00:00"),
        (2, "0.05", "2026-10-25 00:30:00.000001Z", "9999-12-31 00:00:00"),
        (3, None, None, None),
    ]
    kinds, rows = shown(workspace, reader)
    assert kinds == [
        ("id", "int"), ("n", "decimal(12,2)"), ("at", "timestamp"), ("day", "timestamp_ntz"),
    ]  # fmt: skip
    as_text = [(key, *(v if v is None else str(v) for v in values)) for key, *values in rows]
    assert as_text == [*first, *second]
    sql(
        "ALTER TABLE t MODIFY n VARCHAR(20), MODIFY at VARCHAR(40), MODIFY day VARCHAR(40)",
        "UPDATE t SET n = 'five', at = 'noon', day = '' WHERE id = 1",
    )
    sync(workspace)
    assert shown(workspace, reader) == (
        [("id", "int"), ("n", "string"), ("at", "string"), ("day", "string")],
        [
            (1, "-5", "2026-03-08 02:30:00.120", "2026-03-08"),
            (2, "2147483647", "2026-11-01 01:30:00.000", "9999-12-31"),
            (3, None, None, None),
            (1, "-5.00", "2026-03-08 02:30:00.120000", "2026-03-08 00:00:00"),
            (2, "0.05", "2026-10-25 00:30:00.000001", "9999-12-31 00:00:00"),
            (3, None, None, None),
            (1, "five", "noon", ""),
            (2, "0.05", "2026-10-25 00:30:00.000001", "9999-12-31 00:00:00"),
            (3, None, None, None),
        ],
    )
    # Back again: the view still has a place for each.
    sql("DELETE FROM t WHERE id = 1", "ALTER TABLE t MODIFY n DECIMAL(12,2)")
    sync(workspace)
    kinds, rows = shown(workspace, reader)
    assert kinds == [("id", "int"), ("n", "string"), ("at", "string"), ("day", "string")]
    assert [(row[0], row[1]) for row in rows[:3]] == [(1, "-5"), (2, "2147483647"), (3, None)]
    assert "five" in {row[1] for row in rows}


@pytest.mark.full
def test_by_another_clock_a_time_and_an_instant_are_texts(
    sql: Sql, engine_for: EngineFor, reader: Any
) -> None:
    """DATETIME is written by Berlin's clock, TIMESTAMP's text is in UTC."""
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, at DATETIME(6))",
        "INSERT INTO t VALUES (1, '2026-10-25 02:30:00.5')",
    )
    zone = {"time_zone": "Europe/Berlin", "time_zone_of": "application"}
    workspace = engine_for({"t": FULL}, zone)
    sync(workspace)
    sql("ALTER TABLE t MODIFY at TIMESTAMP(3) NULL", "UPDATE t SET at = '2026-10-25 00:30:00.25'")
    sync(workspace)
    assert shown(workspace, reader) == (
        [("id", "int"), ("at", "string")],
        [(1, "2026-10-25 02:30:00.500000"), (1, "2026-10-25 00:30:00.250")],
    )


@pytest.mark.full
def test_numbers_and_bytes_have_one_text_each(sql: Sql, engine_for: EngineFor, reader: Any) -> None:
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, big BIGINT UNSIGNED, f FLOAT, d DOUBLE, "
        "n DECIMAL(38,38), b VARBINARY(9))",
        "INSERT INTO t VALUES (1, 18446744073709551615, 0.1, 1e20, 1e-38, X'FF0022'), "
        "(2, 0, -0e0, 5e-324, 0, '')",
    )
    workspace = engine_for({"t": FULL})
    sync(workspace)
    sql(
        "ALTER TABLE t "
        + ", ".join(f"MODIFY {name} VARCHAR(400)" for name in ("big", "f", "d", "n", "b")),
        "DELETE FROM t",
        "INSERT INTO t VALUES (3, 'a', '`', '\\'', '\"', '😀')",
    )
    sync(workspace)
    kinds, rows = shown(workspace, reader)
    assert [kind for _, kind in kinds] == ["int", *["string"] * 5]
    assert rows == [
        (1, "18446744073709551615", "0.1", "1.0E20", f"0.{'0' * 37}1", "0xFF0022"),
        (2, "0", "-0.0", "4.9E-324", f"0.{'0' * 38}", "0x"),
        (3, "a", "`", "'", '"', "😀"),
    ]


@pytest.mark.full
def test_a_column_that_went_and_came_back_with_another_type_is_one(
    sql: Sql, engine_for: EngineFor, reader: Any
) -> None:
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, note INT, b INT)",
        "INSERT INTO t VALUES (1, 7, 8)",
    )
    workspace = engine_for({"t": FULL})
    sync(workspace)
    sql("ALTER TABLE t DROP note")
    sync(workspace)
    assert shown(workspace, reader) == (
        [("id", "int"), ("b", "int"), ("note", "int")],
        [(1, 8, 7), (1, 8, None)],
    )
    sql("ALTER TABLE t ADD note DATE FIRST", "UPDATE t SET note = '2026-11-25'")
    sync(workspace)
    assert shown(workspace, reader) == (
        [("note", "string"), ("id", "int"), ("b", "int")],
        [("7", 1, 8), (None, 1, 8), ("2026-11-25", 1, 8)],
    )
    sql("ALTER TABLE t DROP note", "ALTER TABLE t DROP b")
    sync(workspace)
    kinds, rows = shown(workspace, reader)
    assert kinds == [("id", "int"), ("note", "string"), ("b", "int")]
    assert rows == [
        (1, "7", 8), (1, None, 8), (1, "2026-11-25", 8), (1, None, None),
    ]  # fmt: skip


@pytest.mark.full
def test_a_name_in_another_case_is_the_same_column(
    sql: Sql, engine_for: EngineFor, reader: Any
) -> None:
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, name INT, `größe` INT, Gone INT)",
        "INSERT INTO t VALUES (1, 2, 3, 4)",
    )
    workspace = engine_for({"t": FULL})
    sync(workspace)
    sql(
        "ALTER TABLE t CHANGE name NAME VARCHAR(9), CHANGE `größe` `GRÖße` BIGINT, "
        "CHANGE Gone GONE INT"
    )
    sync(workspace)
    sql("ALTER TABLE t DROP GONE", "UPDATE t SET NAME = 'x'")
    sync(workspace)
    assert shown(workspace, reader) == (
        [("id", "int"), ("NAME", "string"), ("GRÖße", "bigint"), ("GONE", "int")],
        [(1, "2", 3, 4), (1, "2", 3, 4), (1, "x", 3, None)],
    )


def test_two_columns_that_only_case_folding_takes_for_one_stay_two(
    sql: Sql, engine_for: EngineFor, reader: Any
) -> None:
    """To MySQL ``größe`` and ``grösse`` are two names, and a table may have both."""
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, `größe` INT)",
        "INSERT INTO t VALUES (1, 2)",
    )
    workspace = engine_for({"t": FULL})
    sync(workspace)
    sql("ALTER TABLE t ADD `grösse` VARCHAR(9)", "UPDATE t SET `grösse` = 'x'")
    sync(workspace)
    assert shown(workspace, reader) == (
        [("id", "int"), ("größe", "int"), ("grösse", "string")],
        [(1, 2, None), (1, 2, "x")],
    )


NAMES = (
    "a`b", "a``", "it's", 'say "x"', "do.t", "a,b", "☺", "select", "from t", "\\n", "${env:HOME}",
    "/*", "--", "%s{0}", "ключ", "123", "a b ☺.",
)  # fmt: skip


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.parametrize("names", [NAMES, tuple(n for n in NAMES if "," not in n)], ids=len)
def test_names_that_need_quoting(
    sql: Sql, engine_for: EngineFor, reader: Any, names: tuple[str, ...]
) -> None:
    """With a comma in one, Spark writes the view; without, Mirrorlake does."""
    columns = ", ".join(f"{quoted(name)} INT" for name in names)
    sql(f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, {columns})")
    sql(f"INSERT INTO t VALUES (1, {', '.join(map(str, range(len(names))))})")
    workspace = engine_for({"t": FULL})
    sync(workspace)
    texts, gone = names[::2], names[1::2]
    changes = [f"MODIFY {quoted(name)} VARCHAR(9)" for name in texts]
    sql("ALTER TABLE t " + ", ".join([*changes, *(f"DROP {quoted(name)}" for name in gone)]))
    sync(workspace)
    kinds, rows = shown(workspace, reader)
    assert kinds == [
        ("id", "int"), *((name, "string") for name in texts), *((name, "int") for name in gone),
    ]  # fmt: skip
    numbers = [str(n) for n in range(0, len(names), 2)]
    assert rows == [
        (1, *numbers, *range(1, len(names), 2)),
        (1, *numbers, *[None] * len(gone)),
    ]


@pytest.mark.full
def test_a_table_of_500_columns(sql: Sql, engine_for: EngineFor, reader: Any) -> None:
    columns = ", ".join(f"c{n} INT" for n in range(500))
    sql(f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, {columns})")
    sql(f"INSERT INTO t VALUES (0, {', '.join(map(str, range(500)))})")
    workspace = engine_for({"t": FULL})
    sync(workspace)
    changes = [
        *(f"MODIFY c{n} VARCHAR(9) CHARACTER SET ascii" for n in range(100)),
        *(f"DROP c{n}" for n in range(100, 150)),
        *(f"ADD d{n} DATE" for n in range(50)),
        *(f"MODIFY c{n} DECIMAL(12,1)" for n in range(150, 200)),
    ]
    sql("ALTER TABLE t " + ", ".join(changes))
    sync(workspace)
    kinds, rows = shown(workspace, reader)
    found = [dict(zip((name for name, _ in kinds), row, strict=True)) for row in rows]
    numbers = {
        **{f"c{n}": str(n) for n in range(100)},
        **{f"c{n}": n for n in range(150, 500)},
        **{f"d{n}": None for n in range(50)},
    }
    assert found == [
        {"id": 0, **numbers, **{f"c{n}": n for n in range(100, 150)}},
        {"id": 0, **numbers, **{f"c{n}": None for n in range(100, 150)}},
    ]
    assert [name for name, _ in kinds] == [
        "id", *(f"c{n}" for n in range(100)), *(f"c{n}" for n in range(150, 500)),
        *(f"d{n}" for n in range(50)), *(f"c{n}" for n in range(100, 150)),
    ]  # fmt: skip


@pytest.mark.full
def test_original_texts_stay_beside_their_row(sql: Sql, engine_for: EngineFor, reader: Any) -> None:
    """A zero date is NULL in every version and every type, and its text is its row's original."""
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, born DATE)",
        "INSERT INTO t VALUES (1, '1999-00-00'), (2, '1999-01-01')",
    )
    workspace = engine_for({"t": FULL})
    sync(workspace)
    sql("ALTER TABLE t MODIFY born VARCHAR(20)")
    sync(workspace)
    assert shown(workspace, reader)[1] == [
        (1, None), (2, "1999-01-01"), (1, "1999-00-00"), (2, "1999-01-01"),
    ]  # fmt: skip
    originals = reader.table(view_of(workspace).sql).where("_mirror_original IS NOT NULL").collect()
    assert [(r["id"], [tuple(entry) for entry in r["_mirror_original"]]) for r in originals] == [
        (1, [("born", "1999-00-00")])
    ]


@pytest.mark.full
def test_a_reader_whose_timestamps_have_no_zone_sees_the_same_instants(
    sql: Sql, engine_for: EngineFor, reader: Any
) -> None:
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, at DATETIME, day DATE)",
        "INSERT INTO t VALUES (1, '2026-07-01 12:00:00', '2026-07-01')",
    )
    workspace = engine_for({"t": FULL})
    sync(workspace)
    sql("ALTER TABLE t MODIFY at TIMESTAMP NULL, MODIFY day TIMESTAMP NULL")
    sync(workspace)
    reader.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        kinds, rows = shown(workspace, reader)
    finally:
        reader.conf.unset("spark.sql.timestampType")
    assert kinds == [("id", "int"), ("at", "timestamp"), ("day", "timestamp")]
    assert rows == [(1, "2026-07-01 12:00:00.000000Z", "2026-07-01 00:00:00.000000Z")] * 2


@pytest.mark.full
def test_more_versions_than_one_view_has_branches(
    sql: Sql, engine_for: EngineFor, reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view over views; those of before go once they are not read any more."""
    monkeypatch.setattr("mirrorlake.serving.many_views.BRANCHES", 2)
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, c0 INT)", "INSERT INTO t VALUES (1, 0)")
    workspace = engine_for({"t": FULL})
    sync(workspace)
    contract = workspace.config.table("t")
    prefix = f"view {contract.namespaces.raw}.t__part_"
    for number in range(1, 5):
        sql(f"ALTER TABLE t ADD c{number} INT DEFAULT {number}")
        sync(workspace)
        parts = workspace.ledger.definitions(prefix)
        assert len(parts) == (0 if number == 1 else (number + 2) // 2)
    kinds, rows = shown(workspace, reader)
    assert [name for name, _ in kinds] == ["id", *(f"c{n}" for n in range(5))]
    assert rows == [(1, *(n if n <= number else None for n in range(5))) for number in range(5)]
    assert prove_raw_layer(workspace, contract).verdict == "equal"
    name = next(iter(parts)).removeprefix("view ").rpartition(".")[2]
    forget_view(workspace.lake, Identifier(contract.namespaces.raw, name))
    assert f"{name} is not there" in prove_raw_layer(workspace, contract).proof.words
    # A type that changes is shown with all of its values, or not yet.
    sql("ALTER TABLE t MODIFY c0 VARCHAR(9)")
    sync(workspace)
    kinds, rows = shown(workspace, reader)
    assert dict(kinds)["c0"] == "string"
    assert [row[1] for row in rows] == ["0"] * 6
    assert prove_raw_layer(workspace, contract).verdict == "equal"
