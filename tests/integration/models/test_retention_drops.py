"""What a retention drops, and what it leaves: rows of other days, marks, and what is said of
partitions that can't be computed any more."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable, history
from mirrorlake.ledger import Ledger
from mirrorlake.models.contract_models import compile_project
from mirrorlake.models.ledger import MODEL_PARTITIONS
from mirrorlake.models.partition_states.table_history import settle_records
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.models.test_models import (
    computed,
    config,  # noqa: F401 - a fixture
    run,
    write_models,
)
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 - one JVM
from tests.support.command import COMMAND

DAYS = """---
{kept}
for: {{{{day: "TIMESERIES('{since}', '2024-03-02', 'P1D')"}}}}
---
SELECT product, COUNT(*) AS sales FROM {{deduped}}.sales WHERE DATE(sold_at) = day GROUP BY product
"""
HOURS = """---
{kept}
for: {{{{at: "TIMESERIES('2024-02-28 00:00:00', '2024-03-02', 'PT12H')", shop: [Paris, Detroit]}}}}
---
SELECT product FROM {{deduped}}.sales
WHERE sold_at >= at AND sold_at < at + INTERVAL 12 HOURS AND store = shop
"""
PYTHON = '''"""---
{kept}
for: {{day: "TIMESERIES('2024-02-28', '2024-03-02', 'P1D')"}}
reads:
  sales: SELECT id FROM {deduped}.sales WHERE DATE(sold_at) = day
columns:
  id: {{type: int, made_of: sales.id}}
---"""

from pyspark.sql import DataFrame


def code(sales: DataFrame) -> DataFrame:
    return sales
'''
READER = """---
for: {{{{of_day: "TIMESERIES('2024-02-28', '2024-03-02', 'P1D')"}}}}
---
SELECT {what} AS sales FROM {{models}}.daily WHERE day = of_day
"""


def days_since(day: date) -> int:
    return (datetime.now(UTC).date() - day).days


def keep(config: Path, kept: str = "description: all", since: str = "2024-02-28") -> None:  # noqa: F811
    write_models(config, daily=DAYS.format(kept=kept, since=since), weekly="SELECT 1 AS one")


def table_of(place: Place, config: Path, name: str) -> LakeTable:  # noqa: F811
    table = place.lake.load(Identifier(f"m_{config.parent.name}", name))
    assert table is not None
    return table


def column(place: Place, config: Path, name: str, of: str) -> list[Any]:  # noqa: F811
    return sorted(table_of(place, config, name).scan().to_arrow().column(of).to_pylist())


def files(place: Place, config: Path, name: str) -> set[str]:  # noqa: F811
    return set(table_of(place, config, name).inspect.files()["file_path"].to_pylist())


def shown(config: Path, name: str, *arguments: str) -> dict[str, Any]:  # noqa: F811
    code, found = run(config, "show", f"m_{config.parent.name}.{name}", *arguments, "--json")
    assert code == 0, found
    return found


@pytest.mark.usefixtures("shared_session")
@pytest.mark.full
def test_days_that_are_under_for_no_more_stay_where_all_are_kept(
    place: Place,
    config: Path,  # noqa: F811
) -> None:
    keep(config)
    computed(config, "daily")
    commits = len(history(table_of(place, config, "daily")))
    keep(config, "retention: P99Y", since="2024-03-01")
    assert shown(config, "daily")["to_drop"] == 0
    assert computed(config, "daily") == {"daily": []}
    assert {str(day) for day in column(place, config, "daily", "day")} == {
        "2024-02-28",
        "2024-02-29",
        "2024-03-01",
    }
    assert len(history(table_of(place, config, "daily"))) == commits


@pytest.mark.usefixtures("shared_session")
def test_moments_go_and_the_files_of_all_others_stay(place: Place, config: Path) -> None:  # noqa: F811
    write_models(config, hourly=HOURS.format(kept="description: all"))
    assert len(computed(config, "hourly")["hourly"]) == 12
    before = files(place, config, "hourly")
    # Until 2024-02-29 12:00 all ended so long ago: what begins at noon is kept.
    now = datetime.now(UTC)
    noon = datetime(2024, 2, 29, 12, tzinfo=UTC)
    hours = int((now - noon).total_seconds() // 3600)
    write_models(config, hourly=HOURS.format(kept=f"retention: {hours}h"))
    code, [done] = run(config, "run", f"m_{config.parent.name}.hourly", "--json")
    assert (code, done["computed"]) == (0, [])
    left = {at.isoformat() for at in column(place, config, "hourly", "at")}
    assert left == {"2024-02-29T12:00:00+00:00", "2024-03-01T00:00:00+00:00"}
    assert files(place, config, "hourly") < before
    head = table_of(place, config, "hourly").current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert (head.summary.operation.value, head.summary["added-data-files"]) == ("delete", None)
    # A lost ledger finds again what is there, and nothing else.
    ledger = Ledger(load_config(config).ledger.url)
    with ledger._database.begin() as connection:
        connection.execute(MODEL_PARTITIONS.delete())
    assert shown(config, "hourly")["states"] == {"computed": 6}
    write_models(config, hourly=HOURS.format(kept="description: all"))
    assert shown(config, "hourly")["states"] == {"computed": 6, "missing": 6}


@pytest.mark.usefixtures("shared_session")
@pytest.mark.full
def test_a_model_in_python_keeps_partitions_for_a_time(place: Place, config: Path) -> None:  # noqa: F811
    folder = config.parent / "models" / f"m_{config.parent.name}"
    names = {"deduped": f"s_{config.parent.name}"}
    (folder / "code.py").write_text(PYTHON.format(kept="description: all", **names))
    computed(config, "code")
    assert column(place, config, "code", "id") == [1, 2, 3, 4, 5]
    (folder / "code.py").write_text(PYTHON.format(kept="retention: 1d", **names))
    assert shown(config, "code")["to_drop"] == 2
    assert computed(config, "code") == {"code": []}
    assert column(place, config, "code", "id") == [5]


@pytest.mark.usefixtures("shared_session")
@pytest.mark.full
def test_what_would_be_computed_again_and_can_not_be_is_said(config: Path) -> None:  # noqa: F811
    name = f"m_{config.parent.name}"
    keep(config)
    write_models(config, reader=READER.format(what="SUM(sales)"))
    assert run(config, "run", f"{name}.reader", "--upstream")[0] == 0
    invalid = ["invalidate", f"{name}.daily", "day=2024-02-28", "--reason", "a wrong rate"]
    assert run(config, *invalid)[0] == 0
    keep(config, f"retention: {days_since(date(2024, 2, 29))}d")
    write_models(config, reader=READER.format(what="MAX(sales)"))
    assert computed(config, "daily") == {"daily": []}
    found = shown(config, "reader", "of_day=2024-02-28")["partition"]
    assert found["state"] == "computed"
    assert found["why"] == (
        f"declared invalid: a wrong rate; the model changed; and {name}.daily day=2024-02-28, "
        "which it reads, is no longer kept"
    )
    code, plan = run(config, "plan", "backfill", "--invalid")
    assert code == 0, plan
    words = " ".join(plan.split())
    assert f"{name}.reader of_day=2024-02-28 was declared invalid, and stays: {name}.d" in words
    # The mark of what went is gone with it.
    code, marks = run(config, "invalidate", "--json")
    assert [one["target"] for one in marks] == [f"{name}.reader"]


@pytest.mark.usefixtures("shared_session")
@pytest.mark.full
def test_a_view_of_what_is_kept_is_made_and_shows_it(place: Place, config: Path) -> None:  # noqa: F811
    keep(config, "retention: 2d")
    view = "---\nmaterialized: view\n---\nSELECT product, day FROM {models}.daily"
    write_models(config, shown=view)
    computed(config, "daily")
    assert shown(config, "shown")["states"] == {"missing": 1}
    assert computed(config, "shown") == {"shown": [""]}
    assert shown(config, "shown")["states"] == {"computed": 1}
    rows = place.spark.get().table(f"lake.m_{config.parent.name}.shown").collect()
    assert [tuple(row) for row in rows] == [("tea", date(2024, 3, 1))]


@pytest.mark.usefixtures("shared_session")
@pytest.mark.full
def test_what_somebody_else_wrote_counts_when_its_commit_has_expired(
    place: Place,
    config: Path,  # noqa: F811
) -> None:
    keep(config)
    computed(config, "daily")
    table = table_of(place, config, "daily")
    table.append(table.scan().to_arrow())
    assert shown(config, "daily")["states"] == {"stale": 3}
    opened = load_config(config)
    with Workspace.open(opened, spark=place.spark) as workspace:
        project, _ = compile_project(opened, workspace.lake)
        model = project.model(f"m_{config.parent.name}.daily")
        settle_records(workspace.lake, workspace.ledger, model)
    table.append(table.scan().to_arrow().slice(0, 0))
    _expire_all_but_the_newest(table_of(place, config, "daily"))
    assert shown(config, "daily")["states"] == {"stale": 3}


def _expire_all_but_the_newest(table: LakeTable) -> None:
    head = table.current_snapshot()
    assert head is not None
    old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != head.snapshot_id]
    table.maintenance.expire_snapshots().by_ids(old).commit()


@pytest.mark.full
def test_what_was_declared_invalid_stays_so_if_the_rows_are_kept_after_all(
    place: Place,
    config: Path,  # noqa: F811
) -> None:
    name = f"m_{config.parent.name}.daily"

    def command(*arguments: str, dies: str = "") -> int:
        more = {"MIRRORLAKE_FAILPOINT": dies} if dies else {}
        done = subprocess.run(
            [*COMMAND, *arguments, "--config", str(config)],
            env={**os.environ, **more},
            check=False,
            capture_output=True,
        )
        return done.returncode

    keep(config)
    assert command("run", name) == 0
    assert command("invalidate", name, "day=2024-02-28", "--reason", "a wrong rate") == 0
    keep(config, "retention: 2d")
    assert command("run", name, dies="model.forgotten") < 0
    keep(config)  # longer again, in between
    found = shown(config, "daily", "day=2024-02-28")["partition"]
    assert (found["state"], found["why"]) == ("stale", "declared invalid: a wrong rate")
    keep(config, "retention: 2d")
    assert command("run", name, dies="model.dropped") < 0
    assert {str(day) for day in column(place, config, "daily", "day")} == {"2024-03-01"}
    assert command("run", name) == 0
    assert run(config, "invalidate", "--json") == (0, [])
