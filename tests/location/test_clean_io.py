"""Clean as an input: what an asset downstream is given is what MySQL has, whichever way it is read."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import duckdb
import polars as pl
import pyarrow as pa
import pyspark.sql as ps
import pytest
import yaml
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG as RANGE_END,
)
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_START_TAG as RANGE_START,
)

from assets.reports import flights_per_airport
from dagster_mirrorlake import MirrorlakeTranslator, build_definitions, clean_input, clean_of
from dagster_mirrorlake.resources.contracts import read_config
from dagster_mirrorlake.table import MirroredTable
from demo.oracle import compare_rows
from demo.oracle_text import read_source
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import LakeError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.serving.clean_version import open_clean
from mirrorlake.table.lake_tables import clean_of as clean_table
from mirrorlake.workspace import Workspace
from tests.location.conftest import Location

NOW = datetime.now(UTC).replace(tzinfo=None)
DAY = (NOW - timedelta(days=3)).replace(hour=0, minute=0, second=0, microsecond=0)
BEFORE, LAST = DAY - timedelta(microseconds=1), DAY + timedelta(days=1, microseconds=-1)
NEXT = DAY + timedelta(days=1)
COLUMNS = {
    "d10": ("DECIMAL(10,2)", "99999999.99", "-0.01", "0"),
    "d38": ("DECIMAL(38,10)", f"{'9' * 28}.{'9' * 10}", "-0.0000000001", "0"),
    "whole": ("DECIMAL(38,0)", "9" * 38, f"-{'9' * 38}", "1"),
    "huge": ("DECIMAL(65,30)", f"{'9' * 35}.{'9' * 30}", "-0.5", "0"),
    "big": ("BIGINT UNSIGNED", "18446744073709551615", "0", "9223372036854775808"),
    "bits": ("BIT(64)", f"b'{'1' * 64}'", "b'0'", "b'1'"),
    "at": ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", "'0000-00-00'", "'1969-12-31 23:59:59.000001'"),
    "since": ("DATE", "'0000-00-00'", "'1582-10-10'", "'2024-00-15'"),
    "stamp": ("TIMESTAMP(6) NULL", "'2038-01-19 03:14:07.999999'", "'0000-00-00'", "'1970-01-01 00:00:01'"),
    "raw": ("VARBINARY(20)", "x'00ff00'", "x''", "x'c3'"),
    "text": ("VARCHAR(40) CHARACTER SET utf8mb4", "'😀 \\t\\0 語'", "''", "'a  '"),
    "old": ("VARCHAR(40) CHARACTER SET gbk", "CAST(x'a2a1' AS CHAR CHARACTER SET gbk)", "'a'", "''"),
    "kind": ("ENUM('a','')", "'a'", "''", "'none'"),
    "far": ("DOUBLE", "5e-324", "-0e0", "1.7976931348623157e308"),
    "near": ("FLOAT", "1e-45", "3.4028234e38", "0.1"),
    "span": ("TIME(6)", "'-838:59:59'", "'838:59:59.999999'", "'00:00:00'"),
    "place": ("POINT", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(10 20)', 4326)", "NULL"),
}  # fmt: skip
CREATE = ", ".join(f"{name} {kind[0]}" for name, kind in COLUMNS.items())
VALUES = ", ".join(
    f"({row}, {', '.join(kind[row] for kind in COLUMNS.values())})" for row in (1, 2, 3)
)
TYPED = [
    statement
    for table in ("seen", "stored")
    for statement in (
        f"CREATE TABLE door.{table} (id INT PRIMARY KEY, {CREATE})",
        f"INSERT IGNORE INTO door.{table} VALUES {VALUES}",
        f"INSERT INTO door.{table} (id) VALUES (4)",
    )
]
MOVED = [
    statement
    for table in ("orders", "orders_stored")
    for statement in (
        f"CREATE TABLE door.{table} (id INT PRIMARY KEY, email VARCHAR(40), card VARCHAR(20), "
        "modified_at TIMESTAMP(6) NOT NULL, KEY (modified_at))",
        f"INSERT INTO door.{table} VALUES (1, 'a1@example.com', '4111', '{BEFORE}'), "
        f"(2, 'a2@example.com', '4111', '{DAY}'), (3, 'a3@example.com', '4111', '{LAST}'), "
        f"(4, NULL, '4111', '{NEXT}')",
    )
]
OTHERS = [
    "CREATE TABLE door.log (id INT PRIMARY KEY, word VARCHAR(9))",
    "INSERT INTO door.log VALUES (1, 'a'), (2, 'b')",
    "CREATE TABLE door.births (id INT PRIMARY KEY, born DATETIME NOT NULL, KEY (born))",
    f"INSERT INTO door.births VALUES (1, '{DAY}')",
    "CREATE TABLE door.visits (id INT PRIMARY KEY, made DATETIME(6) NULL)",
    f"INSERT INTO door.visits VALUES (1, '{DAY}'), (2, NULL), (3, '0000-00-00'), (4, '{LAST}'), "
    f"(5, '{NEXT}')",
    "CREATE TABLE door.days (id INT PRIMARY KEY, day DATE NOT NULL, KEY (day))",
    f"INSERT INTO door.days VALUES (1, '{DAY.date()}'), (2, '{NEXT.date()}')",
    "CREATE TABLE door.flights (id INT PRIMARY KEY, origin CHAR(3) NOT NULL, dep_time SMALLINT, "
    "dep_delay DECIMAL(6,1), time_hour DATETIME NOT NULL, KEY (time_hour))",
    f"INSERT INTO door.flights VALUES (1, 'JFK', 517, 2, '{DAY}'), (2, 'JFK', 533, 5, '{DAY}'), "
    f"(3, 'JFK', NULL, NULL, '{DAY}'), (4, 'LGA', NULL, NULL, '{DAY}'), (5, 'LGA', 1, 0, '{NEXT}')",
]
PLAIN: dict[str, Any] = {"mode": "full", "key": ["id"]}
START = str((DAY - timedelta(days=5)).date())
ORDERS = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
HIDDEN = {"email": {"pii": "mask"}, "card": {"pci": "never"}}
STORED = {"clean": "table"}
CONTRACTS: dict[str, Any] = {
    "door": {
        "tables": {
            "seen": PLAIN,
            "stored": {**PLAIN, **STORED},
            "orders": {**ORDERS, "columns": HIDDEN},
            "orders_stored": {**ORDERS, **STORED, "columns": HIDDEN},
            "log": {"mode": "append", "key": ["id"], "cursor": "id", **STORED},
            "births": {
                **{"mode": "append", "key": ["id"], "cursor": "born", **STORED},
                "columns": {"born": {"pii": "null"}},
            },
            "visits": {**{"mode": "append", "key": ["id"], "cursor": "id", "created": "made"}, **STORED},
            "days": {"mode": "append", "key": ["id"], "cursor": "day", **STORED},
            "flights": {"mode": "append", "key": ["id"], "cursor": "time_hour", **STORED},
            "absent": PLAIN,
        }
    }
}  # fmt: skip
DAYS = dg.DailyPartitionsDefinition(start_date=START, end_offset=1)


class Daily(MirrorlakeTranslator):
    """Days from the first that the tests write, whatever the ledger knows."""

    def get_partitions_def(self, data: Any) -> dg.PartitionsDefinition:
        return super().get_partitions_def(data) if data.contract.copies else DAYS


@pytest.fixture(scope="module")
def place(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    """Every table but ``absent``, mirrored by the command line."""
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE door CHARACTER SET utf8mb4")
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        for statement in (*TYPED, *MOVED, *OTHERS):
            cursor.execute(statement)
    place = location_for(CONTRACTS)
    names = [name for name in CONTRACTS["door"]["tables"] if name != "absent"]
    place.command("sync", *names)
    return place


def taken(
    place: Location,
    table: str,
    kind: Any = Any,
    day: datetime | tuple[datetime, datetime] | None = None,
    translator: MirrorlakeTranslator | None = None,
    **how: Any,
) -> Any:
    """What an asset is given of a table; ``day``: one that is partitioned by days is run for it."""
    given: list[Any] = []
    translator = translator or Daily()
    mirrored = MirroredTable(place.config.table(table), translator)

    @dg.asset(
        ins={"rows": clean_of(mirrored, **how)},
        partitions_def=DAYS if day else None,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def downstream(rows: kind) -> None:
        given.append(as_arrow(rows))

    defs = build_definitions(place.config, translator=translator)
    mine = dg.Definitions(
        [*(defs.assets or ()), downstream],
        resources=defs.resources,
    )
    run(mine, day)
    (rows,) = given
    return rows


def run(defs: dg.Definitions, day: datetime | tuple[datetime, datetime] | None) -> None:
    first, last = day if isinstance(day, tuple) else (day, None)
    tags: dict[str, str] = {}
    if last is not None:
        tags = {RANGE_START: first.date().isoformat(), RANGE_END: last.date().isoformat()}
    with dg.DagsterInstance.ephemeral() as instance:
        defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            asset_selection=[dg.AssetKey("downstream")],
            partition_key=first.date().isoformat() if first and last is None else None,
            tags=tags,
        )


def as_arrow(rows: Any) -> pa.Table:
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if isinstance(rows, ps.DataFrame):
        return rows.toArrow()
    if isinstance(rows, duckdb.DuckDBPyRelation):
        return rows.to_arrow_table()
    if isinstance(rows, pl.LazyFrame):
        rows = rows.collect()
    return rows.to_arrow() if isinstance(rows, pl.DataFrame) else rows


def cells(rows: pa.Table) -> dict[str, list[str]]:
    """Each value as text, which tells -0.0 from 0.0."""
    sorted_ = rows.sort_by("id")
    return {name: [repr(v) for v in sorted_.column(name).to_pylist()] for name in rows.column_names}


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows.column("id").to_pylist())


def refused(place: Location, table: str, *args: Any, **how: Any) -> str:
    with pytest.raises(dg.Failure) as raised:
        taken(place, table, *args, **how)
    return str(raised.value.description)


def assert_is_mysqls(server: MariaDB, table: str, rows: pa.Table) -> None:
    with server.admin() as admin:
        verdict = compare_rows(read_source(admin, "door", table), ("id",), rows)
    assert verdict.equal, verdict.describe(40)
    assert rows.num_rows == 4


# --- values ---------------------------------------------------------------------------------------


def test_a_clean_table_is_mysqls_without_a_jvm(server: MariaDB, place: Location) -> None:
    started: list[LazySpark] = []
    first = LazySpark.get
    LazySpark.get = lambda self: started.append(self) or first(self)  # type: ignore[method-assign]
    try:
        for kind in (Any, pa.Table, pa.RecordBatchReader):
            assert_is_mysqls(server, "stored", taken(place, "stored", kind))
        for kind in (duckdb.DuckDBPyRelation, pl.DataFrame, pl.LazyFrame):
            rows = taken(place, "stored", kind)
            assert_is_mysqls(server, "stored", rows)
    finally:
        LazySpark.get = first  # type: ignore[method-assign]
    assert not started


@pytest.mark.alone
@pytest.mark.full
def test_a_clean_view_is_mysqls_and_the_tables_values(
    server: MariaDB, place: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each read gives its session back; the JVM behind it stays, for a start costs as much as a read.
    monkeypatch.setattr(LazySpark, "stop", lambda self: setattr(self, "_session", None))
    stored = taken(place, "stored")
    for kind in (Any, pa.RecordBatchReader, ps.DataFrame, duckdb.DuckDBPyRelation, pl.DataFrame):
        rows = taken(place, "seen", kind)
        assert_is_mysqls(server, "seen", rows)
        if kind in (Any, pa.RecordBatchReader):
            assert rows.schema == stored.schema
            assert cells(rows) == cells(stored)
    assert_is_mysqls(server, "stored", taken(place, "stored", ps.DataFrame))
    # By day, on both sides of midnight.
    for kind in (Any, ps.DataFrame, pa.RecordBatchReader):
        assert ids(taken(place, "orders", kind, DAY)) == [2, 3]
        assert ids(taken(place, "orders_stored", kind, DAY)) == [2, 3]
    assert ids(taken(place, "visits", ps.DataFrame, DAY, undated="skip")) == [1, 4]
    assert ids(taken(place, "days", ps.DataFrame, NEXT)) == [2]
    masked = taken(place, "orders")
    assert masked.column_names == ["id", "email", "modified_at", "_mirror_original"]
    assert set(masked.column("email").to_pylist()) == {"********om", None}


# --- partitions -----------------------------------------------------------------------------------


def test_a_day_is_its_rows_and_no_partitions_are_all(place: Location) -> None:
    assert ids(taken(place, "orders_stored")) == [1, 2, 3, 4]
    by_day = {day: ids(taken(place, "orders_stored", day=day)) for day in (BEFORE, DAY, NEXT)}
    assert by_day == {BEFORE: [1], DAY: [2, 3], NEXT: [4]}
    assert ids(taken(place, "orders_stored", day=(BEFORE, DAY))) == [1, 2, 3]
    assert ids(taken(place, "orders_stored", day=DAY, whole=True)) == [1, 2, 3, 4]
    assert ids(taken(place, "days", day=DAY)) == [1]
    assert ids(taken(place, "days", day=NEXT)) == [2]


def test_what_is_dated_before_the_first_partition_is_in_it(place: Location) -> None:
    class Later(MirrorlakeTranslator):
        def get_partitions_def(self, data: Any) -> dg.PartitionsDefinition:
            if data.contract.copies:
                return super().get_partitions_def(data)
            return dg.DailyPartitionsDefinition(start_date=str(DAY.date()), end_offset=1)

    later = Later()
    assert ids(taken(place, "orders_stored", day=DAY, translator=later)) == [1, 2, 3]
    assert ids(taken(place, "orders_stored", day=NEXT, translator=later)) == [4]


def test_the_deployments_example_counts_flights(place: Location) -> None:
    flights = MirroredTable(place.config.table("flights"), Daily())
    defs = build_definitions(place.config, translator=Daily())
    assets = [*(defs.assets or ()), flights_per_airport(flights)]
    mine = dg.Definitions(assets, resources=defs.resources)
    key = dg.AssetKey(["reports", "flights_per_airport"])
    with dg.DagsterInstance.ephemeral() as instance:
        mine.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, asset_selection=[key], partition_key=str(DAY.date())
        )
        event = instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    told = [dict(record.data) for record in metadata["the first days"].records]
    day = {"day": str(DAY.date())}
    assert told == [
        {**day, "airport": "JFK", "flights": 3, "cancelled": 1, "minutes late": 3.5},
        {**day, "airport": "LGA", "flights": 1, "cancelled": 1, "minutes late": 0.0},
    ]
    assert (metadata["flights"].value, metadata["cancelled"].value) == (4, 2)


def test_of_full_copies_every_partition_is_the_whole(place: Location) -> None:
    assert ids(taken(place, "stored", day=DAY)) == [1, 2, 3, 4]


def test_rows_of_no_known_day_are_refused_or_left_out(place: Location) -> None:
    words = refused(place, "visits", day=DAY)
    assert "2 rows have no date in 'made'" in words
    assert "undated='skip'" in words
    assert ids(taken(place, "visits", day=DAY, undated="skip")) == [1, 4]
    assert ids(taken(place, "visits")) == [1, 2, 3, 4, 5]


def test_a_table_whose_rows_have_no_day_is_refused_by_partition(place: Location) -> None:
    assert "no column of it gives a row's day" in refused(place, "log", day=DAY)
    assert ids(taken(place, "log")) == [1, 2]


def test_a_hidden_day_tells_nobody_its_date(place: Location) -> None:
    assert "the contract hides it" in refused(place, "births", day=DAY)
    assert taken(place, "births").column("born").to_pylist() == [None]


# --- what is refused ------------------------------------------------------------------------------


def test_what_is_not_there_or_not_clean_is_refused(place: Location) -> None:
    assert "clean view s_door__clean.absent is not there" in refused(place, "absent")
    assert "can't be given as that" in refused(place, "stored", dict)
    assert ids(taken(place, "stored", form="polars")) == [1, 2, 3, 4]


def test_clean_made_by_older_rules_is_refused(place: Location) -> None:
    """A rule that was written since the last fold hides nothing yet."""
    text = place.path.read_text()
    hidden = yaml.safe_load(text)
    tables = hidden["sources"]["s"]["databases"]["door"]["tables"]
    tables["stored"]["columns"] = {"text": {"pii": "mask"}}
    tables["orders"]["columns"]["email"] = {"pii": "drop"}
    place.path.write_text(yaml.safe_dump(hidden, allow_unicode=True))
    read_config.cache_clear()
    try:
        assert "shows column 'text' by another rule" in refused(place, "stored")
        assert "shows column 'email'" in refused(place, "orders")
    finally:
        place.path.write_text(text)
        read_config.cache_clear()


def test_a_clean_table_that_is_being_made_is_refused(place: Location) -> None:
    lake, contract = Lake(place.config.lake), place.config.table("days")
    table = lake.load(clean_table(contract))
    assert table is not None
    schema, name = table.schema(), clean_table(contract).path
    lake.catalog.rename_table(name, (name[0], "kept"))
    lake.catalog.create_table(name, schema)
    try:
        with pytest.raises(LakeError, match="is being made") as raised:
            read(place, "days")
        assert raised.value.retryable
    finally:
        lake.catalog.drop_table(name)
        lake.catalog.rename_table((name[0], "kept"), name)
    assert ids(taken(place, "days")) == [1, 2]


def test_a_version_that_was_opened_sees_no_later_commit(place: Location) -> None:
    with Workspace.open(place.config) as workspace:
        version = open_clean(workspace, place.config.table("log"))
        table = workspace.lake.load(clean_table(place.config.table("log")))
        assert table is not None
        table.delete("id = 2")
        assert ids(version.table()) == [1, 2]
        assert ids(open_clean(workspace, place.config.table("log")).table()) == [1]
        workspace.lake.roll_back(
            clean_table(place.config.table("log")), version.snapshot, table.refresh().current_snapshot().snapshot_id
        )  # fmt: skip


def test_nothing_is_written_through_it(place: Location) -> None:
    @dg.asset(io_manager_key="clean_io")
    def mine() -> int:
        return 1

    defs = dg.Definitions([mine], resources=build_definitions(place.config).resources)
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(dg.Failure, match="nothing is"):
        defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)


def test_the_input_is_of_the_keys_that_the_location_has(place: Location) -> None:
    class Ours(MirrorlakeTranslator):
        def get_asset_spec(self, data: Any) -> dg.AssetSpec:
            spec = super().get_asset_spec(data)
            return spec.replace_attributes(key=spec.key.with_prefix("lake"))

    contract = place.config.table("orders")
    assert clean_of(MirroredTable(contract)).key == clean_input("s", "door", "orders").key
    ours = clean_of(MirroredTable(contract, Ours()))
    assert ours.key == dg.AssetKey(["lake", "clean", "s", "door", "orders"])
    assert ours.metadata == clean_input("s", "door", "orders").metadata


def read(place: Location, table: str) -> pa.Table:
    with Workspace.open(place.config) as workspace:
        return open_clean(workspace, place.config.table(table)).table()
