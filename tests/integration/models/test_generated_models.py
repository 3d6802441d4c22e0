"""First models over mirrored tables: whatever the tables are called, each compiles, and has exactly
the table's rows."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.failpoints import OF_EXPECTATIONS, OF_MODELS
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.models.test_models import Sql, run
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 - one JVM
from tests.support.command import COMMAND

AT = "at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at)"
KEYED: dict[str, Any] = {"mode": "full", "key": ["id"]}
TABLES: dict[str, dict[str, Any]] = {
    "orders": {"mode": "incremental", "key": ["id"], "cursor": "at", "overlap": "0s"},
    "people": {**KEYED, "columns": {"mail": {"pii": "drop"}}},
    "Order Details`x": {"mode": "full", "key": ["select", "created_day"]},
    "keyless": {"mode": "full", "key": []},
    "empty": KEYED,
    "old": KEYED,
}


@pytest.fixture
def contract(server: MariaDB, place: Place, database: str, sql: Sql) -> Path:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    sql(
        f"CREATE TABLE orders (id INT PRIMARY KEY, created_at DATETIME, {AT})",
        f"INSERT INTO orders (id, created_at) VALUES (1, '{yesterday} 00:00:00'),"
        f" (2, '{yesterday} 23:59:59'), (3, '{yesterday - timedelta(days=3)} 12:00:00'),"
        " (4, NULL), (5, '1000-01-01 00:00:00')",
        "CREATE TABLE people (id INT PRIMARY KEY, mail TEXT, inserted_on DATE)",
        f"INSERT INTO people VALUES (1, 'a@b', '{yesterday}'), (2, 'b@b', NULL)",
        "CREATE TABLE `Order Details``x` (`select` INT, created_day DATE NOT NULL, `a b` TEXT,"
        " `ä` INT, created TIMESTAMP NULL, PRIMARY KEY (`select`, created_day))",
        f"INSERT INTO `Order Details``x` VALUES (1, '0000-00-00', 'x', 1, '{yesterday} 01:00:00'),"
        " (1, '2024-01-01', NULL, NULL, NULL)",
        "CREATE TABLE keyless (v INT)",
        "INSERT INTO keyless VALUES (1), (1), (NULL)",
        "CREATE TABLE empty (id INT PRIMARY KEY, created_at DATETIME)",
        "CREATE TABLE old (id INT PRIMARY KEY, created_at DATETIME)",
        "INSERT INTO old VALUES (1, '2013-01-01'), (2, '2013-01-03 23:59:59'), (3, NULL)",
    )
    folder = place.folder / database
    folder.mkdir()
    path = write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": TABLES}},
        lake={"warehouse": str(place.folder / "lake")},
        ledger={"url": "sqlite:///ledger.db"},
    )
    assert run(path, "sync")[0] == 0
    return path


def generated(contract: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    code, found = run(contract, "models", "generate", *arguments, "--json")
    assert code == 0, found
    return {f"{one['table'].split('.', 2)[2]} {one['materialized']}": one for one in found}


def rows_of(
    place: Place, name: Identifier, columns: list[str], where: str = "true"
) -> Counter[Any]:
    table = place.spark.get().table(name.sql).where(where)
    rows = table.select(*(f"`{c}`" for c in columns)).collect()
    return Counter(map(str, rows))


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
def test_each_table_has_one_with_exactly_its_rows(place: Place, contract: Path, sql: Sql) -> None:
    found = generated(contract)
    assert {name: one["outcome"] for name, one in found.items()} == {
        "orders table": "written",
        "orders stream view": "written",
        "people table": "written",
        "people stream view": "left out",
        "Order Details`x table": "written",
        "Order Details`x stream view": "left out",
        "keyless table": "written",
        "keyless stream view": "left out",
        "empty table": "written",
        "empty stream view": "left out",
        "old table": "written",
        "old stream view": "left out",
    }
    assert found["orders table"]["partitions"] == 3_650
    assert found["orders table"]["bytes"] > 0
    assert found["old table"]["partitions"] == 3
    assert found["people stream view"]["why"] == "it is copied as a whole"
    assert run(contract, "plan")[0] == 0
    chosen = {"orders": ["--from", str(datetime.now(UTC).date() - timedelta(days=5))]}
    for table in TABLES:
        model = found[f"{table} table"]
        days = chosen.get(table)
        if days is not None:  # all but the first of ten years
            oldest = str(datetime.now(UTC).date() - timedelta(days=3_650))
            assert run(contract, "backfill", model["model"], *days)[0] == 0
            assert run(contract, "run", model["model"], f"created_day={oldest}")[0] == 0
        else:
            assert run(contract, "run", model["model"])[0] == 0, table
        space, _, name = model["model"].partition(".")
        made = Identifier(space, name)
        layer = "__clean" if table == "people" else ""
        source = Identifier(f"s_{contract.parent.name}{layer}", table)
        columns = [c for c in place.spark.get().table(source.sql).columns if "`" not in c]
        assert rows_of(place, made, columns) == rows_of(place, source, columns), table


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
def test_a_row_without_a_day_makes_the_first_stale(contract: Path, sql: Sql) -> None:
    model = generated(contract, "orders")["orders table"]["model"]
    oldest = f"created_day={datetime.now(UTC).date() - timedelta(days=3_650)}"
    recent = f"created_day={datetime.now(UTC).date() - timedelta(days=1)}"
    for day in (oldest, recent):
        assert run(contract, "run", model, day)[0] == 0
    sql("INSERT INTO orders (id, created_at) VALUES (6, NULL)")
    assert run(contract, "sync")[0] == 0
    words = {day: run(contract, "show", model, day, "--json")[1] for day in (oldest, recent)}
    assert [words[day]["partition"]["state"] for day in (oldest, recent)] == ["stale", "computed"]


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
def test_the_last_day_of_an_old_table_has_what_came_later(
    place: Place, contract: Path, sql: Sql
) -> None:
    model = generated(contract, "old")["old table"]["model"]
    assert run(contract, "run", model)[0] == 0
    sql("INSERT INTO old VALUES (4, '2013-01-04'), (5, NOW())")
    assert run(contract, "sync")[0] == 0
    code, runs = run(contract, "run", model, "--json")
    # The first has what has no day, so that any row could be its.
    keys = [one["key"] for one in runs[0]["computed"]]
    assert (code, keys) == (0, ["created_day=2013-01-01", "created_day=2013-01-03"])
    source = Identifier(f"s_{contract.parent.name}", "old")
    made = Identifier(*model.split("."))
    assert rows_of(place, made, ["id"]) == rows_of(place, source, ["id"])
    # Written again now that it is moving, its days go on, and no row is there twice.
    assert generated(contract, "old", "--force")["old table"]["partitions"] > 366
    days = ["--from", "2013-01-01", "--to", "2013-01-04"]
    assert run(contract, "backfill", model, *days)[0] == 0
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    assert run(contract, "run", model, f"created_day={yesterday}")[0] == 0
    assert max(rows_of(place, made, ["id"]).values()) == 1


@pytest.mark.usefixtures("shared_session")
def test_a_file_that_a_person_changed_is_kept(contract: Path) -> None:
    one = generated(contract, "orders")["orders table"]
    assert {g["outcome"] for g in generated(contract, "orders").values()} == {"unchanged"}
    path = Path(one["path"])
    path.write_text(path.read_text() + "-- mine\n")
    assert generated(contract, "orders")["orders table"]["outcome"] == "kept"
    assert path.read_text().endswith("-- mine\n")
    assert generated(contract, "orders", "--force", "--dry-run")["orders table"]["why"]
    assert path.read_text().endswith("-- mine\n")
    assert generated(contract, "orders", "--force")["orders table"]["outcome"] == "written"
    assert not path.read_text().endswith("-- mine\n")
    code, words = run(contract, "models", "generate", "ordres")
    assert (code, "orders" in words) == (2, True)
    code, words = run(contract, "models", "generate", "orders", "--dataset", "No Such")
    assert (code, "can't name a model" in words) == (2, True)
    mirror = f"s_{contract.parent.name}"
    code, words = run(contract, "models", "generate", "orders", "--dataset", mirror)
    assert (code, f"{mirror} is where the mirror of s.{contract.parent.name}" in words) == (2, True)


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
def test_a_model_that_is_written_again_begins_where_it_began(contract: Path, sql: Sql) -> None:
    """Another first partition would have the rows without a day a second time."""
    first = generated(contract, "people")["people table"]
    text = Path(first["path"]).read_text()
    sql("DELETE FROM people WHERE id = 1", "INSERT INTO people VALUES (3, 'c@b', '2024-01-01')")
    assert run(contract, "sync")[0] == 0
    assert generated(contract, "people")["people table"]["outcome"] == "unchanged"
    assert generated(contract, "people", "--force")["people table"]["outcome"] == "unchanged"
    assert Path(first["path"]).read_text() == text


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
@pytest.mark.parametrize("step", [*OF_MODELS, *OF_EXPECTATIONS])
def test_a_run_of_a_first_model_that_dies(
    place: Place, contract: Path, sql: Sql, step: str
) -> None:
    """Its partitions are as they were or as they will be, and the stream view beside it shows what
    the table has, all the while."""
    found = generated(contract, "orders")
    model, stream = (found[f"orders {kind}"]["model"] for kind in ("table", "stream view"))
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    days = ["--from", str(yesterday - timedelta(days=4))]
    assert run(contract, "backfill", model, *days)[0] == 0
    assert run(contract, "run", stream)[0] == 0
    made, view = (Identifier(*name.split(".")) for name in (model, stream))
    source = Identifier(f"s_{contract.parent.name}", "orders")
    before = rows_of(place, made, ["id", "created_at"])
    # One row comes, one moves to another day, and one to a day that is not computed.
    sql(
        f"INSERT INTO orders (id, created_at) VALUES (6, '{yesterday} 07:00:00')",
        f"UPDATE orders SET created_at = '{yesterday - timedelta(days=2)} 01:00:00' WHERE id = 1",
        "UPDATE orders SET created_at = '1999-01-01' WHERE id = 3",
    )
    assert run(contract, "sync")[0] == 0
    command = [*COMMAND, "backfill", model, *days, "--config", str(contract)]
    environment = {**os.environ, "MIRRORLAKE_FAILPOINT": step}
    died = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert died.returncode == -9, died.stderr
    columns = ["id", "created_at"]
    all_rows = rows_of(place, source, columns)
    assert rows_of(place, view, columns) == all_rows
    wanted = rows_of(place, source, columns, f"created_at >= DATE '{days[1]}'")
    published = step in ("model.published", "model.recorded")
    assert rows_of(place, made, columns) == (wanted if published else before)
    assert run(contract, "backfill", model, *days)[0] == 0
    assert rows_of(place, made, columns) == wanted
    assert rows_of(place, view, columns) == all_rows
