"""Rows that are missing, surplus, doubled or old; names of columns; what is left out; conditions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mirrorlake.errors import ConfigError
from tests.integration.other_copies.conftest import Check

Sql = Callable[..., Any]
TABLE = (
    "CREATE TABLE orders (id INT PRIMARY KEY, CustomerID INT NOT NULL, note VARCHAR(40), "
    "updated_at TIMESTAMP(6) NULL)"
)
ROWS = [(n, n * 10, f"note {n}", f"2024-01-{n:02} 10:00:00") for n in range(1, 9)]


@pytest.fixture
def orders(sql: Sql) -> None:
    sql(TABLE)
    for number, customer, note, at in ROWS:
        sql(f"INSERT INTO orders VALUES ({number}, {customer}, '{note}', '{at}')")


def write(path: Path, rows: list[tuple[Any, ...]], names: str, kinds: str = "") -> str:
    """A Parquet file of rows."""
    values = ", ".join(str(row).replace("None", "NULL") for row in rows)
    chosen = kinds or "*"
    duckdb.sql(f"COPY (SELECT {chosen} FROM (VALUES {values}) AS t({names})) TO '{path}'")
    return str(path)


NAMES = "id, customer_id, note, updated_at"
KINDS = "id, customer_id, note, CAST(updated_at AS TIMESTAMP) AS updated_at"


def found(check: Check, *arguments: str, code: int | None = None) -> dict[str, Any]:
    result = check(*arguments, "--json")
    assert result.exit_code in ((0, 9, 10) if code is None else (code,)), result.output
    return json.loads(result.stdout)["tables"][0]


def kinds(one: dict[str, Any]) -> list[tuple[str | None, str, int]]:
    return [(each["column"], each["kind"], each["count"]) for each in one["differences"]]


@pytest.mark.usefixtures("orders")
def test_rows_of_every_fate(check: Check, tmp_path: Path) -> None:
    rows = [row for row in ROWS if row[0] not in (1, 8)]
    rows[0] = (2, 20, "an older note", "2023-12-31 09:00:01.5")
    rows += [(99, 1, "gone", "2024-01-01 00:00:00"), ROWS[4], (6, 60, "note six", ROWS[5][3])]
    rows.append((None, 1, "no key", None))
    copy = write(tmp_path / "orders.parquet", rows, NAMES, KINDS)
    one = found(check, "orders", "--against", copy, code=9)
    assert kinds(one) == [
        (None, "missing", 2),
        (None, "extra", 2),
        (None, "stale", 1),
        (None, "doubled", 2),
    ]
    details = [each["detail"] for each in one["differences"]]
    assert details == [
        "1 of them changed after the newest updated_at that the copy has",
        "",
        "by updated_at",
        "2 rows too many",
    ]
    keys = [each["keys"] for each in one["differences"]]
    assert keys == [["1", "8"], ["99"], ["2"], ["5", "6"]]
    assert (one["rows"], one["equal_rows"]) == ([8, 10], 5)
    assert [(c["name"], c["theirs"]) for c in one["columns"]][1] == ("CustomerID", "customer_id")


@pytest.mark.usefixtures("orders")
def test_values_are_shown_on_request_alone(check: Check, tmp_path: Path) -> None:
    rows = [*ROWS[:7], (8, 80, "note X secret", ROWS[7][3])]
    copy = write(tmp_path / "orders.parquet", rows, NAMES, KINDS)
    page = tmp_path / "page.html"
    arguments = ("orders", "--against", copy, "--report", str(page))
    hidden = check(*arguments)
    assert "secret" not in hidden.output + page.read_text()
    assert "note: another value: 1 row; of key 8" in hidden.output
    shown = check(*arguments, "--show-values")
    assert "8: ‘note 8’ in MySQL, ‘note X secret’ in the copy" in shown.output
    assert "note X secret" in page.read_text()
    assert hidden.exit_code == shown.exit_code == 9


@pytest.mark.usefixtures("orders")
def test_a_condition_leaves_rows_out_on_both_sides(check: Check, tmp_path: Path) -> None:
    """A row that MySQL moved past the bound is in the copy as it was: no difference."""
    rows = [*ROWS[:6], (7, 70, "before", "2024-01-02 00:00:00")]
    copy = write(tmp_path / "orders.parquet", rows, NAMES, KINDS)
    bound = ("--where", "updated_at < '2024-01-07'")
    one = found(check, "orders", "--against", copy, *bound, code=0)
    assert (one["rows"], one["outside"], one["equal_rows"]) == ([6, 7], 2, 6)
    lost = write(tmp_path / "orders.parquet", rows[1:], NAMES, KINDS)
    assert kinds(found(check, "orders", "--against", lost, *bound)) == [(None, "missing", 1)]


@pytest.mark.usefixtures("orders")
def test_columns_of_other_names_lost_ones_and_the_tools_own(check: Check, tmp_path: Path) -> None:
    rows = [(*row[:3], "load", True) for row in ROWS]
    names = "id, client, note, _dlt_load_id, checked"
    copy = write(tmp_path / "orders.parquet", rows, names)
    one = found(check, "orders", "--against", copy, code=9)
    assert kinds(one) == [
        ("CustomerID", "column_missing", 8),
        ("updated_at", "column_missing", 8),
    ]
    assert one["surplus"] == {"_dlt_load_id": "dlt", "client": "", "checked": ""}
    told = ("--map", "client=customerid", "--leave-out", "UPDATED_AT")
    one = found(check, "orders", "--against", copy, *told, code=0)
    assert one["left_out"] == {"updated_at": "by --leave-out"}
    assert one["equal_rows"] == 8


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("__deleted", ("'false'", "'true'")),
        ("_ab_cdc_deleted_at", ("NULL", "'2024-02-01'")),
        ("_fivetran_deleted", ("false", "true")),
        ("_op_type", ("'u'", "'d'")),
    ],
)
def test_rows_that_the_copy_marks_as_deleted_are_gone(
    check: Check, tmp_path: Path, column: str, values: tuple[str, str]
) -> None:
    live = ", ".join(f"{(*row,)}"[:-1] + f", {values[0]})" for row in ROWS)
    gone = f"(50, 1, 'gone', '2024-01-01', {values[1]})"
    select = f"SELECT {KINDS}, {column} FROM (VALUES {live}, {gone}) AS t({NAMES}, {column})"
    copy = tmp_path / "orders.parquet"
    duckdb.sql(f"COPY ({select}) TO '{copy}'")
    one = found(check, "orders", "--against", str(copy), code=0)
    assert (one["rows"], one["marked_deleted"]) == ([8, 8], 1)


@pytest.mark.usefixtures("orders")
def test_a_column_that_cant_be_compared_leaves_it_undecided(check: Check, tmp_path: Path) -> None:
    copy = write(tmp_path / "orders.parquet", ROWS, NAMES, KINDS.replace("note", "[note] AS note"))
    one = found(check, "orders", "--against", copy, code=10)
    assert one["left_out"] == {"note": "varchar(40) can't be compared with VARCHAR[]"}
    assert found(check, "orders", "--against", copy, "--leave-out", "note", code=0)


@pytest.mark.usefixtures("orders")
def test_another_key_and_one_that_is_none(check: Check, sql: Sql, tmp_path: Path) -> None:
    sql("UPDATE orders SET CustomerID = 20 WHERE id = 1")
    rows = [(*row[:1], 20 if row[0] == 1 else row[1], *row[2:]) for row in ROWS]
    copy = write(tmp_path / "orders.parquet", rows, NAMES, KINDS)
    assert found(check, "orders", "--against", copy, "--key", "note", code=0)["key"] == ["note"]
    refused = check("orders", "--against", copy, "--key", "CustomerID")
    assert isinstance(refused.exception, ConfigError)
    assert "CustomerID is no key: 1 value is in several rows of MySQL" in str(refused.exception)


@pytest.mark.usefixtures("orders")
def test_all_tables_that_are_on_both_sides(check: Check, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE alone (id INT PRIMARY KEY)", "CREATE TABLE empty (id INT PRIMARY KEY)")
    for name in ("orders", "theirs_alone"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "part-0.parquet", ROWS[:4], NAMES, KINDS)
        write(tmp_path / name / "part-1.parquet", ROWS[4:], NAMES, KINDS)
    duckdb.sql(f"COPY (SELECT 1 AS id WHERE false) TO '{tmp_path / 'empty.parquet'}'")
    result = check("--against", str(tmp_path), "--json", "--report", str(tmp_path / "r.md"))
    # A table that the copy has not is not compared, unless it is left out.
    assert result.exit_code == 10, result.output
    without = check("--against", str(tmp_path), "--leave-out", "alone", "--json")
    assert (without.exit_code, json.loads(without.stdout)["only_mysql"]) == (0, [])
    told = json.loads(result.stdout)
    assert [one["verdict"] for one in told["tables"]] == ["equal", "equal"]
    assert (told["only_mysql"], told["only_theirs"]) == (["alone"], ["theirs_alone"])
    assert "In MySQL alone, not compared: alone" in (tmp_path / "r.md").read_text()


@pytest.mark.usefixtures("orders")
def test_partitions_in_the_names_of_folders(check: Check, tmp_path: Path) -> None:
    for row in ROWS:
        folder = tmp_path / "orders" / f"customer_id={row[1]}"
        folder.mkdir(parents=True)
        write(folder / "a.parquet", [row], NAMES, KINDS.replace("customer_id,", ""))
    for place in ("orders", "orders/**/*.parquet"):
        assert found(check, "orders", "--against", str(tmp_path / place), code=0)["equal_rows"] == 8


def test_bad_input_is_one_clear_error(check: Check, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))")
    copy = write(tmp_path / "t.parquet", [(1, "x")], "id, a")
    other = write(tmp_path / "other.parquet", [(1, "x")], "b, c")
    (tmp_path / "text.csv").write_text("id,a")
    (tmp_path / "broken.parquet").write_text("PAR1")
    (tmp_path / "nothing").mkdir()
    for arguments, words, code in (
        (("t", "--against", str(tmp_path / "none")), "there is no such file or folder", 2),
        (("t", "--against", str(tmp_path / "*.pq")), "no Parquet file matches", 2),
        (("t", "--against", str(tmp_path / "text.csv")), "no file that can be compared", 2),
        (("t", "--against", str(tmp_path / "nothing")), "has no table that can be read", 2),
        (("t", "--against", str(tmp_path / "broken.parquet")), "can't be read as Parquet", 6),
        (("t", "--against", "s3://bucket/t"), "can't be read from here", 2),
        (("t", "--against", other), "no column is in both: MySQL has id, a, the copy has b, c", 2),
        (("u", "--against", copy), "has no table 'u'", 2),
        (("t", "--against", copy, "--map", "x=a"), "the copy has no column 'x'", 2),
        (("t", "--against", copy, "--map", "a=x"), "MySQL has no column 'x'", 2),
        (("t", "--against", copy, "--leave-out", "x"), "MySQL has no column 'x'", 2),
        (("t", "--against", other, "--map", "b=a"), "by which its rows would be paired", 2),
        (
            ("t", "--against", copy, "--leave-out", "id"),
            "id is left out (--leave-out), and rows",
            2,
        ),
        (("--against", copy, "--leave-out", "x"), "--leave-out: MySQL has no table 'x'", 2),
        (("t", "--against", copy, "--key", "x"), "--key: MySQL has no column 'x'", 2),
        (("t", "--against", copy, "--where", "id <> ''"), "can't be asked of each row", 2),
        (("t", "--against", copy, "--where", "`id` = 1"), "names of columns in double quotes", 2),
        (("t", "--against", copy, "--where", "a >"), "is no condition", 2),
        (("t", "--against", copy, "--their-table", "x"), "has no table 'x'", 2),
        (("--against", other), "no table is on both sides", 2),
        (("--against", copy, "--map", "a=a"), "--map is of one table", 2),
        (("t", "--against", copy, "--report", "x.pdf"), "ends in neither .md nor .html", 2),
    ):
        result = check(*arguments)
        told = f"{result.exception} {result.output}"
        assert words in told, (arguments, told)
        assert (getattr(result.exception, "exit_code", None) or result.exit_code) == code, told


def test_a_condition_leaves_out_doubled_keys_too(sql: Sql, check: Check, tmp_path: Path) -> None:
    sql("CREATE TABLE two (id INT PRIMARY KEY, v INT)", "INSERT INTO two VALUES (1, 1), (2, 2)")
    copy = write(tmp_path / "two.parquet", [(1, 1), (2, 2), (1, 7)], "id, v")
    assert found(check, "two", "--against", copy, "--where", "id=2", code=0)["differences"] == []
    assert kinds(found(check, "two", "--against", copy, code=9)) == [(None, "doubled", 1)]
    broken = check("two", "--against", copy, "--where", "1=1) OR (1=1")
    assert isinstance(broken.exception, ConfigError)
    assert check("two", "--against", f"file://{copy}").exit_code == 9


def test_a_condition_that_holds_for_no_row_proves_nothing(
    sql: Sql, check: Check, tmp_path: Path
) -> None:
    sql("CREATE TABLE one (id INT PRIMARY KEY)", "INSERT INTO one VALUES (1)")
    copy = write(tmp_path / "one.parquet", [(1,)], "id")
    result = check("one", "--against", copy, "--where", "id > 1000")
    assert result.exit_code == 10
    assert "no row was compared: the condition holds for none, on either side" in result.stdout


def test_a_doubled_key_is_shown_as_people_read_it(sql: Sql, check: Check, tmp_path: Path) -> None:
    sql(
        "CREATE TABLE d (at DATETIME, n BIGINT, PRIMARY KEY (at, n))",
        "INSERT INTO d VALUES ('2024-01-02 03:04:05', 1)",
    )
    copy = str(tmp_path / "d.parquet")
    row = "TIMESTAMP '2024-01-02 03:04:05' AS at, 1::DOUBLE AS n"
    duckdb.sql(f"COPY (SELECT {row} FROM range(2)) TO '{copy}'")
    result = check("d", "--against", copy)
    assert "more than once (1 row too many): 1 row; of key 2024-01-02 03:04:05, 1" in result.stdout
    # Which columns whole rows differ in, nobody can say: nothing is promised of their types.
    assert "nothing is lost" not in result.stdout


def test_what_is_called_as_our_originals_are_and_is_none(
    sql: Sql, check: Check, tmp_path: Path
) -> None:
    sql("CREATE TABLE m (id INT PRIMARY KEY, d DATE)", "INSERT INTO m VALUES (1, '0000-00-00')")
    path = tmp_path / "m.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS id, NULL::DATE AS d, 'x' AS _mirror_original) TO '{path}'")
    assert kinds(found(check, "m", "--against", str(path))) == [("d", "zero_date_to_null", 1)]
    kept = "[{'column': 'd', 'text': '0000-00-00'}]"
    duckdb.sql(f"COPY (SELECT 1 AS id, NULL::DATE AS d, {kept} AS _mirror_original) TO '{path}'")
    one = found(check, "m", "--against", str(path), code=0)
    assert (one["surplus"], one["originals"]) == ({}, True)


def test_a_key_that_is_null_is_none(sql: Sql, check: Check, tmp_path: Path) -> None:
    sql("CREATE TABLE k (id INT PRIMARY KEY, v INT)", "INSERT INTO k VALUES (1, 1), (2, NULL)")
    copy = write(tmp_path / "k.parquet", [(1, 1), (2, None)], "id, v")
    refused = check("k", "--against", copy, "--key", "v")
    assert "v is no key: it is NULL in 1 row of MySQL" in str(refused.exception)


@pytest.mark.parametrize("kept", ["3", "'a,b'::BLOB", "true", "DATE '2024-01-01'"])
def test_a_set_in_any_type(sql: Sql, check: Check, tmp_path: Path, kept: str) -> None:
    sql("CREATE TABLE s (id INT PRIMARY KEY, s SET('a','b'))", "INSERT INTO s VALUES (1, 'a,b')")
    path = tmp_path / "s.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS id, {kept} AS s) TO '{path}'")
    one = found(check, "s", "--against", str(path))
    assert one["verdict"] == ("different" if " " in kept or kept == "true" else "equal")


def test_a_copy_that_is_changed_while_it_is_read(
    sql: Sql, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE c (id INT PRIMARY KEY)", "INSERT INTO c VALUES (1)")
    copy, other = (write(tmp_path / f"{n}.parquet", [(1,)], "id") for n in ("c", "other"))
    from mirrorlake.other_copies import compare

    read = compare.read_ours

    def meddle(*arguments: Any) -> Any:
        Path(other).replace(copy)
        return read(*arguments)

    monkeypatch.setattr(compare, "read_ours", meddle)
    assert "was changed while it was read" in str(check("c", "--against", copy).exception)
