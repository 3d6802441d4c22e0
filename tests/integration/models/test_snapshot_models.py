"""A model that is a snapshot: each partition is taken once, in its time, and stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger import Ledger
from mirrorlake.models.ledger import MODEL_PARTITIONS
from tests.integration.conftest import Place
from tests.integration.hands import LakePart, purged
from tests.integration.models.test_models import (
    Sql,
    computed,
    config,  # noqa: F401 - a fixture
    rows_of,
    run,
    write_models,
)
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 - one JVM

TAKEN = """---
materialized: snapshot
for: {{{{day: "TIMESERIES('2024-05-01', '{until}', 'P1D')"}}}}
---
SELECT store, COUNT(*) AS sales FROM {{deduped}}.sales GROUP BY store
"""
READER = """---
for: {{of_day: "TIMESERIES('2024-05-01', '2024-05-03', 'P1D')"}}
---
SELECT t.store, t.sales FROM {models}.taken t WHERE day = of_day
"""


def take(config: Path, until: str) -> None:  # noqa: F811
    write_models(config, taken=TAKEN.format(until=until))


def states(config: Path, name: str = "taken") -> dict[str, int]:  # noqa: F811
    code, shown = run(config, "show", f"m_{config.parent.name}.{name}", "--json")
    assert code == 0, shown
    return shown["states"]


@pytest.mark.usefixtures("shared_session")
def test_each_day_is_taken_once_and_stays(place: Place, config: Path, sql: Sql) -> None:  # noqa: F811
    take(config, "2024-05-03")
    assert computed(config, "taken") == {"taken": ["day=2024-05-02"]}
    first = rows_of(place, config, "taken")
    assert [row[:2] for row in first] == [("Detroit", 2), ("Paris", 5)]
    assert states(config) == {"missed": 1, "computed": 1}
    # Its inputs move, and it was taken.
    sql("DELETE FROM sales WHERE store = 'Detroit'")
    assert run(config, "sync")[0] == 0
    assert computed(config, "taken") == {"taken": []}
    # The next day has come.
    take(config, "2024-05-04")
    assert states(config) == {"missed": 1, "computed": 1, "missing": 1}
    assert computed(config, "taken") == {"taken": ["day=2024-05-03"]}
    rows = rows_of(place, config, "taken")
    assert [row for row in rows if row in first] == first
    assert len(rows) == 3
    assert computed(config, "taken", "--again") == {"taken": ["day=2024-05-03"]}
    # Other hands take rows away, which nobody can take again: they are shown again.
    before = rows_of(place, config, "taken")
    part = LakePart(place, Identifier(f"m_{config.parent.name}", "taken"))
    part.load().delete("store = 'Paris'")
    assert computed(config, "taken") == {"taken": []}
    assert rows_of(place, config, "taken") == before
    purged(part)
    code, words = run(config, "run", f"m_{config.parent.name}.taken")
    assert (code, "can't be taken again" in words, "lake find" in words) == (6, True, True)


@pytest.mark.usefixtures("shared_session")
@pytest.mark.full
def test_what_was_missed_is_said_and_never_made_up(config: Path) -> None:  # noqa: F811
    take(config, "2024-05-03")
    name = f"m_{config.parent.name}"
    write_models(config, reader=READER)
    assert computed(config, "taken") == {"taken": ["day=2024-05-02"]}
    code, words = run(config, "run", f"{name}.taken", "day=2024-05-01")
    assert code == 2
    assert "can't be computed any more" in words
    code, words = run(config, "run", f"{name}.reader", "of_day=2024-05-01")
    assert code == 2
    assert f"never computed, and {name}.taken day=2024-05-01, which it reads, was missed" in words
    assert computed(config, "reader") == {"reader": ["of_day=2024-05-02"]}
    assert states(config, "reader") == {"missed": 1, "computed": 1}
    for arguments in (["invalidate", f"{name}.taken"], ["run", f"{name}.taken", "--rebuild"]):
        code, words = run(config, *arguments)
        assert code == 2, words
        assert "snapshot" in words


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
def test_a_lost_ledger_takes_no_day_again(place: Place, config: Path, sql: Sql) -> None:  # noqa: F811
    take(config, "2024-05-03")
    computed(config, "taken")
    take(config, "2024-05-04")
    computed(config, "taken")
    before = rows_of(place, config, "taken")
    table = place.lake.load(Identifier(f"m_{config.parent.name}", "taken"))
    assert table is not None
    oldest: Any = min(table.snapshots(), key=lambda one: one.timestamp_ms)
    table.maintenance.expire_snapshots().by_id(oldest.snapshot_id).commit()
    ledger = Ledger(load_config(config).ledger.url)
    with ledger._database.begin() as connection:
        connection.execute(MODEL_PARTITIONS.delete())
    sql("DELETE FROM sales WHERE id = 1")
    assert run(config, "sync")[0] == 0
    assert states(config) == {"missed": 1, "computed": 2}
    assert computed(config, "taken") == {"taken": []}
    assert rows_of(place, config, "taken") == before
