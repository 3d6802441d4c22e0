"""A model that is a stream view shows what is loaded, whether it is folded or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.views import forget_view
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.table.streamed import streamed_of
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.models.test_models import Sql, run, write_models
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 - one JVM
from tests.support.readers import VIEW, reading

NOW = """---
materialized: stream view
---
SELECT o.id, o.state, s.label FROM {deduped}.orders AS o
JOIN {deduped}__clean.states s ON s.id = o.state
"""


@pytest.fixture
def orders(server: MariaDB, place: Place, database: str, sql: Sql) -> Path:
    sql(
        "CREATE TABLE orders (id INT PRIMARY KEY, state INT, at DATETIME(6) NOT NULL DEFAULT NOW(6)"
        " ON UPDATE NOW(6), KEY (at))",
        "CREATE TABLE states (id INT PRIMARY KEY, label VARCHAR(20))",
        "INSERT INTO orders (id, state) VALUES (1, 1), (2, 1)",
        "INSERT INTO states VALUES (1, 'new'), (2, 'sent')",
    )
    folder = place.folder / database
    (folder / "models" / f"m_{database}").mkdir(parents=True)
    tables: dict[str, Any] = {
        "orders": {"mode": "incremental", "key": ["id"], "cursor": "at", "overlap": "0s"},
        "states": {"mode": "full", "key": ["id"]},
    }
    path = write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": tables}},
        lake={"warehouse": str(place.folder / "lake")},
        ledger={"url": "sqlite:///ledger.db"},
    )
    write_models(path, now=NOW)
    assert run(path, "sync")[0] == 0
    return path


def shown(place: Place, orders: Path) -> list[tuple[Any, ...]]:
    rows = place.spark.get().table(f"lake.m_{orders.parent.name}.now").collect()
    return sorted(tuple(row) for row in rows)


def step(place: Place, orders: Path, what: Any) -> None:
    config = load_config(orders)
    with Workspace.open(config, spark=place.spark) as workspace:
        what(workspace, config.table("orders"))


@pytest.mark.usefixtures("shared_session")
def test_loads_are_shown_before_and_after_their_fold(place: Place, orders: Path, sql: Sql) -> None:
    name = f"m_{orders.parent.name}.now"
    assert run(orders, "run", name)[0] == 0
    assert shown(place, orders) == [(1, 1, "new"), (2, 1, "new")]
    sql("UPDATE orders SET state = 2 WHERE id = 1", "INSERT INTO orders (id, state) VALUES (3, 1)")
    step(place, orders, load_table)
    expected = [(1, 2, "sent"), (2, 1, "new"), (3, 1, "new")]
    assert shown(place, orders) == expected
    step(place, orders, fold_table)
    assert shown(place, orders) == expected
    code, again = run(orders, "run", name, "--json")
    assert (code, [one["computed"] for one in again]) == (0, [[]])


@pytest.mark.usefixtures("shared_session")
@pytest.mark.full
def test_one_whose_view_is_gone_is_not_called_computed(place: Place, orders: Path) -> None:
    name = f"m_{orders.parent.name}.now"
    assert run(orders, "run", name)[0] == 0
    before = shown(place, orders)
    current = streamed_of(Identifier(f"s_{orders.parent.name}", "orders"))
    for view in (current, Identifier(*name.split("."))):
        forget_view(place.lake, view)
        found = run(orders, "show", name, "--json")[1]["partition"]
        assert (found["state"], found["why"]) == ("stale", f"view {view} is not there")
        assert run(orders, "run", name, "--json")[1][0]["computed"]
        assert run(orders, "show", name, "--json")[1]["partition"]["state"] == "computed"
        assert shown(place, orders) == before


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
def test_what_it_costs_is_said(place: Place, orders: Path, sql: Sql) -> None:
    name = f"m_{orders.parent.name}.now"
    assert run(orders, "run", name)[0] == 0
    sql("INSERT INTO orders (id, state) VALUES (3, 1)")
    step(place, orders, load_table)
    code, found = run(orders, "show", name, "--json")
    assert code == 0, found
    by_table = {one["table"].split(".")[1]: one for one in found["streams"]}
    assert by_table["orders"]["waiting"] == 1
    assert by_table["orders"]["added_bytes"] > 0
    assert by_table["orders"]["folded_bytes"] > 0
    assert by_table["states"]["why_none"] == "it is copied as a whole"
    step(place, orders, fold_table)
    found = run(orders, "show", name, "--json")[1]
    [one] = [one for one in found["streams"] if one["table"].endswith("orders")]
    assert one["waiting"] == 0
    # A few loads that are folded are added all the same.
    assert one["added_bytes"] == by_table["orders"]["added_bytes"]
    assert "no loads to add: it is copied as a whole" in run(orders, "show", name)[1]


@pytest.mark.usefixtures("shared_session")
def test_a_masked_column_stays_masked(orders: Path) -> None:
    text = NOW.replace("SELECT o.id", "SELECT o.at, o.id")
    contract = yaml.safe_load(orders.read_text())
    [tables] = contract["sources"]["s"]["databases"].values()
    tables["tables"]["orders"]["columns"] = {"at": {"pii": "drop"}}
    orders.write_text(yaml.safe_dump(contract))
    write_models(orders, now=text)
    code, words = run(orders, "plan")
    assert code == 2
    assert "which the contract hides" in words


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
def test_one_that_becomes_a_table_is_one(place: Place, orders: Path) -> None:
    name = f"m_{orders.parent.name}.now"
    assert run(orders, "run", name)[0] == 0
    before = shown(place, orders)
    write_models(orders, now=NOW.replace("materialized: stream view", "description: a table"))
    with reading(place.folder / "lake", *name.split(".")) as seen:
        code, words = run(orders, "run", name)
    assert code == 0, words
    assert shown(place, orders) == before
    assert (seen.wrong, seen.counts) == ([], {VIEW, len(before)})
    assert place.lake.load(Identifier(*name.split("."))) is not None
