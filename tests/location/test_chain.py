"""Chains materialised for real: MariaDB, Spark, Iceberg, in the runs that Dagster makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from demo import nyc
from demo.oracle import compare_rows, compare_table
from demo.oracle_text import SourceColumn, SourceRows, read_source
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.proof.comparing.counts import count_rows
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.schema.own_columns import DAY, SEQ
from mirrorlake.table.lake_tables import deduped_of, raw_tables
from mirrorlake.workspace import Workspace
from tests.location.conftest import Location

TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)

SHOP = [
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "USE shop",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, email VARCHAR(40), card VARCHAR(20), "
    "modified_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) "
    "ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))",
    "SET sql_mode = ''",
    "CREATE TABLE shop.kinds (id INT PRIMARY KEY, word VARCHAR(20), since DATE, until DATE)",
    "CREATE TABLE shop.quiet (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))",
    "INSERT INTO shop.orders (id, email, card, modified_at) "
    "SELECT seq, CONCAT(seq, '@example.com'), '4111111111111111', NOW() - INTERVAL 3 HOUR "
    "FROM seq_1_to_300",
    "INSERT INTO shop.kinds VALUES (1, 'one', '0000-00-00', NULL), (2, 'b@example.com', '0000-00-00', '2020-01-00')",
    "INSERT INTO shop.quiet SELECT seq, NOW() - INTERVAL 2 DAY FROM seq_1_to_50",
]
MASKED = {"email": {"pii": "mask"}, "card": {"pci": "never"}}
CONTRACTS: dict[str, Any] = {
    "shop": {
        "tables": {
            "orders": {
                "mode": "incremental", "key": ["id"], "cursor": "modified_at", "columns": MASKED,
                "partitions_from": str(YESTERDAY),
            },
            "kinds": {"mode": "full", "key": ["id"]},
            "quiet": {"mode": "append", "key": ["id"], "cursor": "at", "start": "2024-05-01"},
            "absent": {"mode": "full", "key": ["id"]},
        }
    },
    "nyc": {
        "tables": {
            "flights": {
                "mode": "append",
                "key": ["time_hour", "carrier", "flight", "origin"],
                "cursor": "time_hour",
                "start": "2013-04-24",
            }
        }
    },
}  # fmt: skip
# The machine may be busy: all steps run before the first test, in one process with one JVM.
pytestmark = pytest.mark.timeout(900)
STEPS: list[dict[str, Any]] = [
    {"tables": ["orders", "kinds", "quiet", "absent"], "day": str(TODAY)},
    {"tables": ["quiet"], "day": str(TODAY)},
    {
        "tables": ["orders", "kinds"],
        "day": str(YESTERDAY),
        "tags": {"mirrorlake/load": "live"},
        "sql": [
            "UPDATE shop.orders SET email = 'new@example.com' WHERE id <= 7",
            "INSERT INTO shop.orders (id) VALUES (1001)",
        ],
    },
    {"tables": ["flights"], "days": ["2013-04-24", "2013-05-07"]},
    {"tables": ["kinds", "quiet"], "days": [str(YESTERDAY), str(TODAY)]},
    {"tables": ["quiet"], "day": "2024-04-30"},
    {"tables": ["quiet"], "day": str(TODAY), "plant": {"lose": "quiet"}},
    {
        "tables": ["quiet", "kinds"],
        "day": str(YESTERDAY),
        "tags": {"mirrorlake/load": "daily"},
        "sql": ["DELETE FROM shop.quiet WHERE id IN (10, 20)"],
    },
    {
        "tables": ["quiet", "orders"],
        "day": str(TODAY),
        "plant": {"duplicate": "quiet", "odd": "orders"},
    },
    {
        "tables": ["orders"],
        "day": str(TODAY),
        "plant": {"mend": "orders", "expose": "orders"},
        "hold": ["orders", 7],
    },
    {
        "tables": ["flights"],
        "days": ["2013-05-04", "2013-05-06"],
        "sql": [
            "UPDATE nyc.flights SET air_time = air_time + 1 "
            "WHERE time_hour >= '2013-05-05' AND time_hour < '2013-05-06' AND origin = 'JFK'"
        ],
    },
    {"tables": [], "model": "orders"},
    {"tables": ["kinds"], "day": str(TODAY), "sql": ["DELETE FROM shop.kinds"]},
    {"tables": ["kinds"], "day": str(TODAY), "tags": {"mirrorlake/accept-smaller": "true"}},
    {"tables": [], "proofs": ["quiet", "kinds"]},
    {"tables": ["quiet"], "day": str(TODAY), "tags": {"mirrorlake/load": "live"}},
]


def of_spring(table: nyc.NycTable, read: Any = nyc.read_nyc) -> pa.Table:
    """Flights of one airport of three, of two weeks and the night after them; few other rows."""
    rows: pa.Table = read(table)
    if table.name != "flights":
        return rows.slice(0, 10)
    time = pc.field("time_hour")
    weeks = (time >= "2013-04-24") & (time <= "2013-05-08T03:00:00Z")
    return rows.filter((pc.field("origin") == "JFK") & weeks)


@pytest.fixture(scope="module")
def place(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with (
        server.admin() as admin,
        admin.cursor() as cursor,
        pytest.MonkeyPatch.context() as patch,
    ):
        for statement in SHOP:
            cursor.execute(statement)
        patch.setattr(nyc, "read_nyc", of_spring)
        nyc.load_nyc(admin)
    location = location_for(CONTRACTS)
    # By Spark, that a check may look at what is new: small layers are written again as a whole.
    with (location.folder / "mirrorlake.yaml").open("a", encoding="utf-8") as contracts:
        contracts.write("\nspark: {folds_from: 0}\n")
    return location


@pytest.fixture(scope="module")
def runs(place: Location) -> list[dict[str, Any]]:
    return place.run(STEPS)


def chain(table: str) -> set[str]:
    return {f"{layer}/s/{table}" for layer in ("raw", "deduped", "clean")}


@pytest.mark.full
def test_a_failed_table_does_not_stop_the_others_of_its_run(runs: list[dict[str, Any]]) -> None:
    first = runs[0]
    assert not first["success"]
    assert set(first["made"]) == chain("shop/orders") | chain("shop/kinds") | chain("shop/quiet")
    assert list(first["failed"]) == ["raw__s__shop__absent"]
    assert "shop.absent" in first["failed"]["raw__s__shop__absent"]


def test_the_chain_says_what_it_did(runs: list[dict[str, Any]]) -> None:
    made = runs[0]["made"]
    raw = made["raw/s/shop/orders"][str(TODAY)]
    assert (raw["rows"], raw["window"], raw["columns"]) == (300, "initial", True)
    assert {"load id", "bytes", "seconds", "lake MB written", "retries"} <= set(raw)
    assert raw["MB read"] > 0
    assert raw["MB/s"] > 0
    deduped = made["deduped/s/shop/orders"][str(TODAY)]
    assert deduped["dagster/row_count"] == 300
    assert deduped["lake MB written"] > 0
    assert deduped["lake MB scanned"] > 0
    assert made["clean/s/shop/orders"][str(TODAY)]["dagster/row_count"] == 300


def test_all_checks_of_a_sound_table_pass(runs: list[dict[str, Any]]) -> None:
    checks = {k: v for k, v in runs[0]["checks"].items() if "orders" in k}
    assert {k.split(":")[1] for k in checks} == {
        "gaps", "row_count", "unique_key", "no_pii", "contract", "originals", "suspected_pii",
        "gaps_by_day", "row_count_by_day",
    }  # fmt: skip
    assert all(check["passed"] for check in checks.values()), checks
    assert checks["deduped/s/shop/orders:contract"]["metadata"]["rows looked at"] == 300


def test_rows_that_were_found_good_are_not_looked_at_again(runs: list[dict[str, Any]]) -> None:
    """Seven updates and one insert: their new rows alone."""
    seen = runs[2]["checks"]["deduped/s/shop/orders:contract"]
    assert seen["passed"]
    assert seen["metadata"]["rows looked at"] == 8


def test_originals_are_counted_by_column_and_day_and_block_nothing(
    runs: list[dict[str, Any]],
) -> None:
    kinds = runs[0]["checks"]["raw/s/shop/kinds:originals"]
    assert (kinds["passed"], kinds["metadata"]["values"]) == (True, 3)
    assert kinds["words"] == f"Originals kept in raw ({TODAY}): since: 2, until: 1"
    assert kinds["metadata"]["by day"] == {str(TODAY): {"since": 2, "until": 1}}
    raw = runs[0]["made"]["raw/s/shop/kinds"][str(TODAY)]
    assert raw["originals by column"] == "since: 2, until: 1"
    assert raw["moments"].endswith(" UTC")
    weeks = runs[3]["checks"]["raw/s/nyc/flights:originals"]
    assert weeks["words"] == "Originals kept in raw (2013-04-24 to 2013-05-07): none"


def test_what_looks_personal_in_clean_is_a_warning_without_a_value(
    runs: list[dict[str, Any]],
) -> None:
    word = runs[0]["checks"]["clean/s/shop/kinds:suspected_pii"]
    assert (word["passed"], word["severity"]) == (False, "WARN")
    assert word["words"].startswith("word: 1 of 2 sampled values hold an e-mail address: ")
    assert "example.com" not in str(word)


def test_one_jvm_at_most_serves_a_run(runs: list[dict[str, Any]]) -> None:
    assert [run["jvms"] for run in runs[:1]] == [0], "a first load needs none"
    assert max(run["jvms"] for run in runs) == 1


def test_a_run_that_needs_no_spark_starts_no_jvm(runs: list[dict[str, Any]]) -> None:
    assert runs[1]["success"]
    assert set(runs[1]["made"]) == chain("shop/quiet")
    assert runs[1]["jvms"] == 0


def test_changes_arrive_in_the_next_run(runs: list[dict[str, Any]]) -> None:
    counted = runs[2]["checks"]["deduped/s/shop/orders:row_count"]
    made = runs[2]["made"]["deduped/s/shop/orders"]
    assert made[str(YESTERDAY)]["dagster/row_count"] == 301
    assert counted["passed"], counted


def test_two_weeks_are_backfilled_in_one_run(runs: list[dict[str, Any]]) -> None:
    weeks = runs[3]
    assert weeks["success"], weeks["failed"]
    assert len(weeks["made"]["raw/s/nyc/flights"]) == 14
    assert all(check["passed"] for check in weeks["checks"].values()), weeks["checks"]


def test_each_day_of_them_has_mysqls_rows_by_value(
    runs: list[dict[str, Any]], server: MariaDB, place: Location
) -> None:
    """The server's own text of every cell, against raw's, each row on its day.

    One initial load read them; what a reload read again since is newer, and left out here.
    """
    with server.admin("nyc") as admin:
        with admin.cursor() as cursor:
            cursor.execute(
                "UPDATE flights SET air_time = air_time - 1 WHERE origin = 'JFK' "
                "AND time_hour >= '2013-05-05' AND time_hour < '2013-05-06'"
            )
        source = read_source(admin, "nyc", "flights")
        with admin.cursor() as cursor:
            cursor.execute(
                "UPDATE flights SET air_time = air_time + 1 WHERE origin = 'JFK' "
                "AND time_hour >= '2013-05-05' AND time_hour < '2013-05-06'"
            )
    config = place.config
    (raw,) = raw_tables(Lake(config.lake), Ledger(config.ledger.url), config.table("flights"))
    rows = raw.scan(row_filter=f"{SEQ} == {first_seq(place, 'flights')}").to_arrow()
    days = [text[:10] for text in source.rows["time_hour"].to_pylist()]
    dated = SourceRows(
        source.table,
        (*source.columns, SourceColumn(DAY, "date")),
        source.rows.append_column(DAY, pa.array(days, pa.large_string())),
    )
    names = [column.name for column in dated.columns]
    key = (DAY, "time_hour", "carrier", "flight", "origin")
    verdict = compare_rows(dated, key, rows, only_columns=names)
    assert verdict.equal, verdict.describe()
    assert len(set(days)) == 14 + 1  # and the night after
    shown = {
        day: made["dagster/partition_row_count"]
        for day, made in runs[3]["made"]["raw/s/nyc/flights"].items()
        if made["dagster/partition_row_count"]
    }
    assert shown == {d: n for d, n in Counter(days).items() if d < "2013-05-08"}


def first_seq(place: Location, table: str) -> int:
    config = place.config
    return Ledger(config.ledger.url).successful_loads(config.table(table).name)[0].seq


def test_past_days_are_loaded_again_and_what_changed_arrives(
    runs: list[dict[str, Any]], server: MariaDB, place: Location
) -> None:
    again = runs[10]
    assert again["success"], again["failed"]
    raw = again["made"]["raw/s/nyc/flights"]
    assert list(raw) == ["2013-05-04", "2013-05-05", "2013-05-06"]
    assert [told["window"] for told in again["observed"]["raw/s/nyc/flights"]] == ["reload"]
    assert not any("window" in made for made in raw.values())
    deduped = Lake(place.config.lake).load(deduped_of(place.config.table("flights")))
    assert deduped is not None
    contract = place.config.table("flights")
    with server.admin("nyc") as admin:
        verdict = compare_table(admin, "nyc", "flights", contract.key, deduped)
    assert verdict.equal, verdict.describe()


def test_the_daily_run_loads_the_day_again_and_then_what_is_new(
    runs: list[dict[str, Any]],
) -> None:
    daily = runs[7]
    assert daily["success"], daily["failed"]
    assert daily["made"]["raw/s/shop/quiet"][str(YESTERDAY)]["window"] == "reload, live"
    kinds = daily["made"]["raw/s/shop/kinds"][str(TODAY)]
    assert kinds["window"] == "full"
    assert "a past day's copy can't be made" in kinds["not loaded again"]


def test_an_empty_copy_stops_until_a_run_says_that_it_is_right(runs: list[dict[str, Any]]) -> None:
    stopped, taken = runs[12:14]
    assert list(stopped["failed"]) == ["raw__s__shop__kinds"]
    said = stopped["failed"]["raw__s__shop__kinds"]
    assert "the copy has 0 rows" in said
    assert "mirrorlake/accept-smaller: true" in said
    assert stopped["tried again"] == []
    assert stopped["made"] == {}
    assert taken["success"], taken["failed"]
    assert taken["made"]["deduped/s/shop/kinds"][str(TODAY)]["dagster/row_count"] == 0


def test_a_live_run_that_midnight_overtook_is_still_live(runs: list[dict[str, Any]]) -> None:
    live = runs[2]
    assert live["success"], live["failed"]
    assert live["made"]["raw/s/shop/orders"][str(YESTERDAY)]["window"] == "live"
    # The copy is the day's on which it was begun: its fold is requested by the sensor.
    assert set(live["made"]["raw/s/shop/kinds"]) == {str(TODAY)}
    assert live["made"]["raw/s/shop/kinds"][str(TODAY)]["window"] == "full"
    assert "deduped/s/shop/kinds" not in live["made"]


def test_a_past_day_of_a_full_table_says_why_not_and_the_rest_goes_on(
    runs: list[dict[str, Any]],
) -> None:
    mixed = runs[4]
    assert list(mixed["failed"]) == ["raw__s__shop__kinds"]
    assert f"day {YESTERDAY}: mode full" in mixed["failed"]["raw__s__shop__kinds"]
    assert list(mixed["made"]["raw/s/shop/kinds"]) == [str(TODAY)]
    assert set(mixed["made"]) == chain("shop/quiet") | {"raw/s/shop/kinds"}


def test_a_day_before_the_start_is_no_partition_and_nothing_is_loaded(
    runs: list[dict[str, Any]],
) -> None:
    early = runs[5]
    assert not early["success"]
    assert early["made"] == {}


def test_a_lost_row_fails_the_count(runs: list[dict[str, Any]]) -> None:
    lost = runs[6]["checks"]["deduped/s/shop/quiet:row_count"]
    assert not lost["passed"]
    assert lost["severity"] == "ERROR"
    assert lost["words"] == "1 row that MySQL has is not in the mirror"
    # Told of its day as well, and of no other.
    days = runs[6]["days"]["deduped/s/shop/quiet:row_count_by_day"]
    assert [day for day, passed in days.items() if not passed] == [str(TODAY - timedelta(days=2))]


def test_a_row_deleted_in_mysql_passes_while_the_sweep_comes_around(
    runs: list[dict[str, Any]],
) -> None:
    surplus = runs[7]["checks"]["deduped/s/shop/quiet:row_count"]
    assert surplus["passed"]
    assert surplus["words"].startswith("1 row of the mirror is not in MySQL any more")


def test_a_planted_duplicate_blocks_what_is_downstream(runs: list[dict[str, Any]]) -> None:
    blocked = runs[8]
    assert not blocked["checks"]["deduped/s/shop/quiet:unique_key"]["passed"]
    assert "deduped/s/shop/quiet" in blocked["made"]
    assert "clean/s/shop/quiet" not in blocked["made"]


def test_a_row_that_breaks_the_contract_blocks_what_is_downstream(
    runs: list[dict[str, Any]],
) -> None:
    odd = runs[8]
    verdict = odd["checks"]["deduped/s/shop/orders:contract"]
    assert not verdict["passed"]
    assert verdict["words"] == (
        "email is longer than varchar(40): 1; modified_at is NULL without an original: 1"
    )
    assert "clean/s/shop/orders" not in odd["made"]


def test_a_view_that_shows_what_is_hidden_is_made_again(runs: list[dict[str, Any]]) -> None:
    """By the fold of the next run: the ledger's memory of the view is not believed. That `no_pii`
    sees such a view is in `tests/unit/serving/test_exposure.py`."""
    verdict = runs[9]["checks"]["clean/s/shop/orders:no_pii"]
    assert verdict["passed"], verdict["words"]


def test_a_model_of_ones_own_shares_the_engines_session(runs: list[dict[str, Any]]) -> None:
    """By the ``spark`` resource; an asset that only names it has started none."""
    model = runs[11]
    assert model["rows"][:2] == [0, 301]
    assert model["rows"][2] >= 1
    assert model["rows"][3] is True
    assert model["jvms"] == 1


def test_the_mirror_is_held_against_mysql(runs: list[dict[str, Any]]) -> None:
    """After a planted duplicate, and a row that MySQL lost: both are named."""
    checks = runs[14]["checks"]
    names = ("deduped:exact_match", "deduped:row_count", "raw:intact", "clean:matches_deduped")
    days = ("deduped/s/shop/quiet:exact_match_by_day", "deduped/s/shop/quiet:row_count_by_day")
    assert set(checks) - set(days) == {
        name.replace(":", f"/s/shop/{t}:") for t in ("quiet", "kinds") for name in names
    }
    assert checks["deduped/s/shop/kinds:exact_match"]["passed"]
    raw = checks["raw/s/shop/kinds:intact"]
    assert raw["passed"], raw
    assert "files read byte by byte" in raw["metadata"]["compared"]
    assert checks["clean/s/shop/kinds:matches_deduped"]["passed"]
    wrong = checks["deduped/s/shop/quiet:exact_match"]
    assert not wrong["passed"]
    assert wrong["severity"] == "ERROR"
    # The deleted row was swept; the other one waits for a person's word.
    assert wrong["words"].startswith(
        "2 rows differed (2 extra); now different: 0 were read again, 1"
    )
    assert wrong["metadata"]["rows in the mirror"] - wrong["metadata"]["rows in MySQL"] == 2
    assert "a second row" in str(wrong["metadata"]["first differences"])
    assert "gone from MySQL', 'key': 'id=20'" in str(wrong["metadata"]["first differences"])
    # Told of its day as well; a copy has no days.
    days = runs[14]["days"]
    assert days["deduped/s/shop/quiet:exact_match_by_day"] == {
        str(TODAY - timedelta(days=2)): False
    }
    assert "deduped/s/shop/kinds:exact_match_by_day" not in days


def test_what_differed_stays_red_when_the_table_is_loaded_again(
    runs: list[dict[str, Any]],
) -> None:
    """The run compares nothing; to Dagster the verdict would be one of before."""
    restated = runs[15]["checks"]["deduped/s/shop/quiet:exact_match"]
    assert not restated["passed"]
    assert restated["words"].startswith("2 rows differed (2 extra); now different")
    assert restated["words"].endswith("not compared since)")


def test_a_run_waits_for_a_table_that_another_holds_and_loses_nothing(
    runs: list[dict[str, Any]],
) -> None:
    held = runs[9]
    assert set(held["failed"]) == set()
    assert set(held["tried again"]) == {"raw__s__shop__orders"}
    assert chain("shop/orders") <= set(held["made"])


def test_rows_updated_since_the_load_are_told_from_lost_ones(
    runs: list[dict[str, Any]], server: MariaDB, place: Location
) -> None:
    """293 old rows are mirrored; since the load MySQL moved five of them and lost one."""
    assert runs[2]["success"]
    config = place.config
    contract = config.table("orders")
    with server.admin("shop") as admin, admin.cursor() as cursor:
        cursor.execute("UPDATE orders SET email = 'later@example.com' WHERE id BETWEEN 100 AND 104")
        cursor.execute("DELETE FROM orders WHERE id = 200")
    with Workspace.open(config) as workspace:
        counts = count_rows(workspace, contract)
    assert (counts.source_rows, counts.lake_rows) == (287, 293 - 5)
    assert (counts.lost, counts.surplus) == (0, 1)
