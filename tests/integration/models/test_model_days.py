"""A partition is stale where rows of the days that it reads changed, and only there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import history
from tests.integration.conftest import Place
from tests.integration.models.test_models import (  # noqa: F401 – fixtures
    ALL_DAYS,
    DAILY,
    Sql,
    computed,
    config,
    run,
    shared_session,
    write_models,
)


def due(config: Path, name: str = "daily") -> dict[str, str]:  # noqa: F811
    """Partition → why it is to be computed."""
    code, said = run(config, "run", f"m_{config.parent.name}.{name}", "--dry-run", "--json")
    assert code == 0, said
    return {p["key"]: p["why"] for p in said["partitions"] if p["word"] != "computed"}


def change(config: Path, sql: Sql, *statements: str) -> None:  # noqa: F811
    sql(*statements)
    assert run(config, "sync", "--json")[0] == 0


def on(days: Sequence[str], table: str, words: str) -> dict[str, str]:
    return {key: f"{table} {words}" for key in ALL_DAYS if key[9:19] in days}


def test_only_partitions_of_days_that_changed_are_stale(
    config: Path,  # noqa: F811
    place: Place,
    sql: Sql,
) -> None:
    table = f"s_{config.parent.name}.sales"
    assert computed(config, "daily") == {"daily": ALL_DAYS}
    # Of a day that no partition reads, and of none.
    change(config, sql, "UPDATE sales SET amount = 60 WHERE id = 6")
    change(config, sql, "INSERT INTO sales VALUES (8, NULL, 'Paris', 'tea', 8)")
    assert due(config) == {}
    # A row that moves changes the day that it leaves, and the one to which it goes.
    change(config, sql, "UPDATE sales SET sold_at = '2024-02-29 01:00' WHERE id = 5")
    expected = on(["2024-02-29"], table, "moved on 2024-02-29") | on(
        ["2024-03-01"], table, "moved on 2024-03-01"
    )
    assert due(config) == expected
    # What was found is kept, and found again from the commits where it was lost.
    with sa.create_engine(load_config(config).ledger.url).begin() as connection:
        assert connection.scalar(sa.text("SELECT COUNT(*) FROM moved_days")) == 1
        connection.execute(sa.text("DELETE FROM moved_days"))
    assert due(config) == expected
    assert computed(config, "daily") == {"daily": ALL_DAYS[2:]}
    assert due(config) == {}


@pytest.mark.full
def test_a_table_that_was_set_back_has_moved(
    config: Path,  # noqa: F811
    place: Place,
    sql: Sql,
) -> None:
    identifier = Identifier(f"s_{config.parent.name}", "sales")
    change(config, sql, "UPDATE sales SET amount = 60 WHERE id = 6")
    assert computed(config, "daily") == {"daily": ALL_DAYS}
    table = place.lake.load(identifier)
    assert table is not None
    new, old = (one.snapshot_id for one in history(table)[:2])
    place.lake.roll_back(identifier, old, new)
    moved = on(["2024-02-28", "2024-02-29", "2024-03-01"], str(identifier), "moved")
    assert due(config) == moved
    # What comes after it leads from another snapshot than the one that was read.
    place.spark.get().sql(f"DELETE FROM {identifier.sql} WHERE id = 6")
    assert due(config) == moved


@pytest.mark.full
def test_snapshots_that_expired_are_remembered_where_a_model_read_them(
    config: Path,  # noqa: F811
    place: Place,
    sql: Sql,
) -> None:
    identifier = Identifier(f"s_{config.parent.name}", "sales")
    assert computed(config, "daily") == {"daily": ALL_DAYS}
    for amount in (61, 62):
        change(config, sql, f"UPDATE sales SET amount = {amount} WHERE id = 6")
        assert due(config) == {}
    expire = f"CALL lake.system.expire_snapshots(table => '{identifier}', retain_last => 1,"
    place.spark.get().sql(f"{expire} older_than => TIMESTAMP '2999-01-01 00:00:00')")
    assert due(config) == {}
    change(config, sql, "UPDATE sales SET amount = 20 WHERE id = 1")
    assert due(config) == on(["2024-02-28"], str(identifier), "moved on 2024-02-28")
    # What expired before anybody looked may have been anything.
    change(config, sql, "UPDATE sales SET amount = 63 WHERE id = 6")
    place.spark.get().sql(f"{expire} older_than => TIMESTAMP '2999-01-01 00:00:00')")
    assert set(due(config)) == set(ALL_DAYS)


@pytest.mark.full
def test_a_rule_that_changes_clean_makes_what_reads_it_stale(
    config: Path,  # noqa: F811
    sql: Sql,
) -> None:
    database = config.parent.name
    clean = f"s_{database}__clean"
    write_models(config, daily=DAILY.replace("{deduped}.sales", f"{clean}.sales"))
    assert computed(config, "daily") == {"daily": ALL_DAYS}
    change(config, sql, "UPDATE sales SET amount = 20 WHERE id = 1")
    assert due(config) == on(["2024-02-28"], f"{clean}.sales", "moved on 2024-02-28")
    said = yaml.safe_load(config.read_text())
    table = said["sources"]["s"]["databases"][database]["tables"]["sales"]
    table["columns"] = {"product": {"pii": "mask"}}
    config.write_text(yaml.safe_dump(said))
    assert run(config, "sync", "--json")[0] == 0
    shown = on(["2024-02-28", "2024-02-29", "2024-03-01"], f"{clean}.sales", "is shown otherwise")
    assert due(config) == shown
