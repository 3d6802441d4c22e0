"""Names and values that mean something to a parser are names and values, on every path.

Spark's SQL expands ``${env:NAME}`` unless it is switched off, even between quotes: a column called
so would put the secret into errors, logs and the ledger. Backticks, quotes, comments, format
directives, control and bidi characters are the other ways out of a quoted name.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.oracle import check_clean, compare_table
from demo.oracle_text import read_source
from mirrorlake.config import load_config
from mirrorlake.config.spark_settings import EXACT_SETTINGS
from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.spark.settings import check_exact
from mirrorlake.errors import LakeError
from mirrorlake.landing.check import check_snapshots
from mirrorlake.landing.files import listing as look
from mirrorlake.landing.land import fold_snapshots, take_snapshots
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.introspection.introspect import read_samples, read_table
from mirrorlake.sources.mysql.tables import quote, quoted_text
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, Place, connected, lake_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
HOSTILE = (
    "${env:TEST_HASH_KEY}",
    "${spark.app.name}${",
    "${system:user.home}\\",
    "a`b``c`",
    "it's \"q\" \\' \\\\",
    "/* c */ -- x",
    "*/ a.b.c",
    "tab\tline\r\nfeed\x01\x7f",
    "\u202ebidi\u2066\u200b\ufeff",
    "%s %(a)s {0} {a}",
    "; DROP TABLE x; #",
    "\\u0041 \\n \\",
    "' OR 1=1 --",
)
PIECES = [*HOSTILE, "$", "{", "}", "`", "'", '"', "\\", ".", "%", "\n", "é", "x", "/", " y"]
AT = "at `${env:TEST_HASH_KEY}'"
TABLE = "t `${env:TEST_HASH_KEY}' /*.%s"
OLD = "2020-01-01 00:00:00"


def name_of(column: str) -> str:
    return column.rstrip()[:60] + "_"


def make(sql: Sql, table: str, names: list[str], values: list[str]) -> None:
    """A table of these columns and a row for each of these keys, which is in its other columns
    too."""
    columns = ", ".join(f"{quote(n)} VARCHAR(200) COLLATE utf8mb4_bin NULL" for n in names[1:])
    sql(
        f"CREATE TABLE {quote(table)} ({quote(names[0])} VARCHAR(200) COLLATE utf8mb4_bin "
        f"PRIMARY KEY, {columns}, {quote(AT)} DATETIME NOT NULL, KEY ({quote(AT)}))",
        *(insert(table, names, value, number) for number, value in enumerate(values)),
    )


def insert(table: str, names: list[str], value: str, number: int = 0) -> str:
    cells = [quoted_text(value)] * len(names)
    cells[-1] = "NULL" if number % 3 == 0 else cells[-1]
    return f"REPLACE INTO {quote(table)} VALUES ({', '.join(cells)}, '{OLD}')"


def assert_exact(server: EmbeddedServer, workspace: Workspace, contract: Any) -> None:
    """Deduped and clean hold what MySQL has, by the judge that shares no code."""
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    assert deduped is not None
    with server.admin() as admin:
        verdict = compare_table(admin, contract.database, contract.table, contract.key, deduped)
        assert verdict.equal, verdict.describe()
        source = read_source(admin, contract.database, contract.table)
    shown = Identifier(contract.namespaces.clean, contract.table)
    if contract.clean == "table":
        found = workspace.lake.load(shown)
        assert found is not None
        rows = found.scan().to_arrow()
    else:
        rows = workspace.spark.get().sql(f"SELECT * FROM {shown.sql}").toArrow()
    masked = check_clean(source, contract.key, rows, contract.rules, HASH_KEY.encode())
    assert masked.equal, masked.describe()


def run_every_path(
    server: EmbeddedServer, sql: Sql, workspace: Workspace, names: list[str], values: list[str]
) -> None:
    """Load, fold, prove, repair, load again and refold, exact after each."""
    [contract] = workspace.config.tables
    key, last = quote(names[0]), quote(names[-1])
    sync_table(workspace, contract)
    assert_exact(server, workspace, contract)
    assert repair_table(workspace, contract, Ask()).rounds == 0, "nothing differs"
    spark = workspace.spark.get()
    lake = Identifier(contract.namespaces.deduped, contract.table).sql
    from pyspark.sql import functions as f

    rows = spark.table(lake).limit(2).select(*map(as_sql_identifier, names)).toArrow()
    doomed = rows[names[0]].to_pylist()[0]
    spark.table(lake).where(f.col(as_sql_identifier(names[0])) != doomed).writeTo(lake).overwrite(
        f.lit(True)
    )
    done = repair_table(workspace, contract, Ask())
    assert (done.outcome, done.rows) == ("equal", 1)
    assert_exact(server, workspace, contract)
    one, other = (f"{key} = {quoted_text(value)}" for value in values[:2])
    sql(
        f"UPDATE {quote(contract.table)} SET {last} = {key}, {quote(AT)} = UTC_TIMESTAMP() "
        f"WHERE {one}",
        f"DELETE FROM {quote(contract.table)} WHERE {other}",
    )
    sync_table(workspace, contract)
    assert repair_table(workspace, contract, Ask()).outcome == "equal"
    assert_exact(server, workspace, contract)
    refold_table(workspace, contract)
    assert_exact(server, workspace, contract)


def assert_no_secret(folder: Path, said: str) -> None:
    """Neither the ledger nor the logs hold what the names would have been expanded to."""
    for path in [*folder.glob("ledger.db*"), *folder.glob(".mirrorlake/evidence/*/*")]:
        assert HASH_KEY.encode() not in path.read_bytes()
    assert HASH_KEY not in said


def contract_of(names: list[str], clean: str) -> dict[str, Any]:
    rules = {names[1]: {"pii": "mask"}, names[2]: {"pii": "hash"}, names[3]: {"pii": "null"}}
    if clean == "view":
        rules[names[2]] = {"pii": "drop"}
    more = {"clean": clean, "columns": rules}
    return {"mode": "incremental", "key": [names[0]], "cursor": AT, **more}


@pytest.mark.parametrize("clean", ["table", pytest.param("view", marks=pytest.mark.full)], ids=str)
def test_names_and_values_are_never_read_as_sql(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    place: Place,
    caplog: pytest.LogCaptureFixture,
    clean: str,
) -> None:
    """The shortest way through a load, a fold, a clean layer, a proof and a repair."""
    caplog.set_level(logging.DEBUG, logger="mirrorlake")
    names = [name_of(n) for n in (HOSTILE[0], HOSTILE[3], HOSTILE[4] + HOSTILE[5], HOSTILE[9])]
    make(sql, TABLE, names, [HOSTILE[0], HOSTILE[4], HOSTILE[7]])
    workspace = engine_for({TABLE: contract_of(names, clean)})
    [contract] = workspace.config.tables
    with connected(server, database) as connection:
        samples = read_samples(connection, read_table(connection, database, TABLE))
    assert set(samples) == set(names), "`init` looks at the columns by their names"
    sync_table(workspace, contract)
    assert_exact(server, workspace, contract)
    lake = Identifier(contract.namespaces.deduped, TABLE).sql
    lost = f"{as_sql_identifier(names[0])} LIKE '%TEST_HASH_KEY%'"
    workspace.spark.get().sql(f"DELETE FROM {lake} WHERE {lost}")
    done = repair_table(workspace, contract, Ask())
    assert (done.outcome, done.rows) == ("equal", 1)
    assert_exact(server, workspace, contract)
    assert_no_secret(place.folder, caplog.text)


@pytest.mark.parametrize("name", EXACT_SETTINGS)
def test_a_session_that_does_not_keep_a_setting_is_refused(place: Place, name: str) -> None:
    """As a Spark Connect server may that resets what its sessions set."""
    session = place.spark.get().newSession()
    check_exact(session, "Spark")
    other = {"true": "false", "false": "true", "UTC": "Asia/Tokyo"}
    session.conf.set(name, other[EXACT_SETTINGS[name]])
    with pytest.raises(LakeError, match=f"did not keep {name}"):
        check_exact(session, "Spark")


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("clean", ["table", "view"])
@pytest.mark.parametrize("seed", [None, *range(4)])
def test_every_path_with_many_names(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    clean: str,
    seed: int | None,
) -> None:
    """The names that are known to be dangerous, then any mixture of their pieces."""
    names, values = list(HOSTILE), list(HOSTILE)
    if seed is not None:
        chance = random.Random(seed)  # noqa: S311
        names = [mixed(chance, str(n)) for n in range(6)]
        values = [mixed(chance, str(n)) for n in range(12)]
    names = [name_of(n) for n in names]
    table = TABLE if seed is None else name_of(mixed(chance, "t")).replace("/", "").lower()
    make(sql, table, names, values)
    workspace = engine_for({table: contract_of(names, clean)})
    run_every_path(server, sql, workspace, names, values)


def mixed(chance: random.Random, end: str) -> str:
    return "".join(chance.choices(PIECES, k=4)) + end


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("missing", ["kept", "removed"])
def test_snapshots_with_such_names(place: Place, missing: str) -> None:
    """Three snapshots: a change, a row that is missing, and one that comes late."""
    names = [name_of(n) for n in HOSTILE]
    source, table = f"hostile_{missing}", name_of(HOSTILE[0] + HOSTILE[3])
    folder = place.folder / f"landing {source}"
    path = place.folder / f"{source}.yaml"
    rules = {names[1]: {"pii": "mask"}, names[2]: {"pii": "drop"}}
    settings = {"complete": "marker", "missing": missing, "day": "day", "retention_days": 30}
    contract = {"mode": "snapshot", "key": [names[0], "day"], "columns": rules}
    text = {
        "version": 1,
        "lake": {"warehouse": "lake"},
        "ledger": {"url": "sqlite:///ledger.db"},
        "sources": {source: {"landing": {"url": folder.name}, "databases": {"d": {"tables": {
            table: {**contract, "snapshot": settings}}}}}},
    }  # fmt: skip
    path.write_text(yaml.safe_dump(text, allow_unicode=True))
    workspace = Workspace.open(load_config(path), spark=place.spark)
    contract = workspace.config.snapshot_table(f"{source}.d.{table}")
    place_of_files = look.place_of(workspace.config, contract)
    columns = [{"name": name, "type": "string"} for name in names]
    write(folder / place_of_files.folder.schema_path, json.dumps(
        {"version": 1, "columns": [*columns, {"name": "day", "type": "date"}]}))  # fmt: skip

    def land(snapshot: int, rows: dict[str, str]) -> None:
        stem = folder / place_of_files.folder.day_path(date(2026, 1, snapshot // 10**6 % 100))
        lines = [
            json.dumps({**dict.fromkeys(names, value), names[0]: key, "day": "2026-01-29"})
            for key, value in rows.items()
        ]
        write(stem / f"{snapshot}_0.json", "\n".join(lines))
        write(stem / f"{snapshot}_SUCCESS", "")
        found = look.look(place_of_files, workspace.ledger)
        ready = [one.id for one in found.ready]
        take_snapshots(workspace, contract, ready)
        fold_snapshots(workspace, contract, ready)

    same = {value: value for value in HOSTILE}
    land(20260130000000, same)
    land(20260131000000, {**same, HOSTILE[1]: HOSTILE[0]})
    without = {key: value for key, value in same.items() if key != HOSTILE[3]}
    land(20260131120000, {**without, HOSTILE[1]: HOSTILE[0]})
    land(20260131060000, {**same, HOSTILE[1]: HOSTILE[4]})
    expected = {**(same if missing == "kept" else without), HOSTILE[1]: HOSTILE[0]}
    rows = lake_rows(workspace, contract.namespaces.deduped, table)
    assert {row[names[0]]: row[names[3]] for row in rows} == expected
    shown = Identifier(contract.namespaces.clean, table).sql
    clean = workspace.spark.get().sql(f"SELECT * FROM {shown}").toArrow()
    assert set(clean[names[0]].to_pylist()) == set(expected)
    assert names[2] not in clean.column_names
    assert check_snapshots(workspace, contract).equal


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
