"""Partitions that a model keeps no more: dropped by metadata, forgotten, and computed again only if
they are kept longer one day; what was computed from them stays."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import history
from mirrorlake.failpoints import OF_RETENTION
from mirrorlake.models.contract_models import compile_readable
from mirrorlake.models.upkeep.maintain import maintain_model, stored_models
from mirrorlake.operations.upkeep.maintain import Ages
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.models.test_models import (
    Sql,
    computed,
    config,  # noqa: F401 - a fixture
    run,
    write_models,
)
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 - one JVM
from tests.support.command import COMMAND

# The rows are of 2024-02-28 to 2024-03-02: the last day decides what is kept, however old it is.
DAILY = """---
{kept}
for:
  sold_day: TIMESERIES('2024-02-27', '{until}', 'P1D')
  shop: [Paris, Detroit]
---
SELECT product, COUNT(*) AS sales FROM {{deduped}}.sales
WHERE DATE(sold_at) = sold_day AND store = shop GROUP BY product
"""
READER = """---
for: {{{{of_day: "TIMESERIES('2024-02-28', '{until}', 'P1D')"}}}}
---
SELECT SUM(sales) AS sales FROM {{models}}.daily
WHERE sold_day BETWEEN DATE_SUB(of_day, {back}) AND of_day
"""


def keep(config: Path, retention: str = "", until: str = "2024-03-02", **models: str) -> None:  # noqa: F811
    kept = f"retention: {retention}" if retention else "description: all"
    daily = DAILY.format(kept=kept, until=until)
    write_models(config, daily=daily, weekly="SELECT 1 AS one", **models)


def days_of(place: Place, config: Path) -> set[str]:  # noqa: F811
    table = place.lake.load(Identifier(f"m_{config.parent.name}", "daily"))
    assert table is not None
    return {str(row["sold_day"]) for row in table.scan().to_arrow().to_pylist()}


def files_of(place: Place, config: Path) -> set[str]:  # noqa: F811
    table = place.lake.load(Identifier(f"m_{config.parent.name}", "daily"))
    assert table is not None
    return set(table.inspect.files()["file_path"].to_pylist())


def shown(config: Path, *arguments: str) -> dict[str, Any]:  # noqa: F811
    code, found = run(config, "show", f"m_{config.parent.name}.daily", *arguments, "--json")
    assert code == 0, found
    return found


@pytest.mark.usefixtures("shared_session")
def test_what_is_gone_is_dropped_by_one_commit_of_metadata(place: Place, config: Path) -> None:  # noqa: F811
    keep(config)
    computed(config, "daily")
    before = files_of(place, config)
    assert days_of(place, config) == {"2024-02-28", "2024-02-29", "2024-03-01"}
    keep(config, "2d")  # of long ago: the newest day alone is kept
    found = shown(config)
    assert (found["partitions"], found["gone"], found["to_drop"]) == (2, 6, 3)
    code, plan = run(config, "plan", "--json")
    assert code == 10, plan
    code, due = run(config, "run", f"m_{config.parent.name}.daily", "--dry-run", "--json")
    assert (code, len(due["to_drop"])) == (0, 3)
    assert len(days_of(place, config)) == 3
    code, [done] = run(config, "run", f"m_{config.parent.name}.daily", "--json")
    assert (code, done["computed"], done["dropped"]) == (0, [], 3)
    assert days_of(place, config) == {"2024-03-01"}
    assert files_of(place, config) < before
    # Nothing more to do, and nothing is committed.
    table = place.lake.load(Identifier(f"m_{config.parent.name}", "daily"))
    assert table is not None
    commits = len(history(table))
    code, [done] = run(config, "run", f"m_{config.parent.name}.daily", "--json")
    assert (done["computed"], done["dropped"]) == ([], 0)
    table = place.lake.load(Identifier(f"m_{config.parent.name}", "daily"))
    assert table is not None
    assert len(history(table)) == commits
    assert run(config, "plan")[0] == 0
    assert shown(config)["states"] == {"computed": 2}
    code, words = run(config, "show", f"m_{config.parent.name}.daily", "sold_day=2024-02-28")
    assert code == 2
    assert "kept" in words
    # Kept longer, they are computed again.
    keep(config)
    assert shown(config)["states"] == {"computed": 2, "missing": 6}
    assert len(computed(config, "daily")["daily"]) == 6
    assert days_of(place, config) == {"2024-02-28", "2024-02-29", "2024-03-01"}


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
def test_what_was_computed_from_them_stays(place: Place, config: Path, sql: Sql) -> None:  # noqa: F811
    name = f"m_{config.parent.name}"
    keep(config, "9999d", reader=READER.format(until="2024-03-02", back=1))
    assert run(config, "run", f"{name}.reader", "--upstream")[0] == 0
    sql("INSERT INTO sales VALUES (9, '2024-02-28 10:00:00', 'Paris', 'tea', 1)")
    assert run(config, "sync")[0] == 0
    # Time goes on: what the reader's first two days read is kept no more.
    days = (datetime.now(UTC).date() - date(2024, 2, 29)).days
    keep(config, f"{days}d", late=READER.format(until="2024-03-02", back=1))
    assert computed(config, "daily") == {"daily": []}
    assert days_of(place, config) == {"2024-02-29", "2024-03-01"}
    found = run(config, "show", f"{name}.reader", "--json")[1]
    assert found["states"] == {"computed": 3}
    found = run(config, "show", f"{name}.late", "--json")[1]
    assert found["states"] == {"missed": 2, "missing": 1}
    code, words = run(config, "run", f"{name}.late", "of_day=2024-02-29")
    assert (code, "is no longer kept" in words) == (2, True)
    assert computed(config, "late") == {"late": ["of_day=2024-03-01"]}
    assert computed(config, "reader", "--again") == {"reader": ["of_day=2024-03-01"]}


@pytest.mark.usefixtures("shared_session")
def test_a_reader_that_looks_back_too_far_is_refused(config: Path) -> None:  # noqa: F811
    reader = READER.format(until="2024-03-20", back=5)
    keep(config, "5d", until="2024-03-20", reader=reader)
    code, words = run(config, "plan")
    assert code == 2
    assert "reader.sql:4:" in words
    assert "keeps partitions for 5d" in words
    keep(config, "5d", reader="SELECT SUM(sales) AS sales FROM {models}.daily")
    code, words = run(config, "plan")
    assert (code, "reads all partitions" in words) == (2, True)
    view = "---\nmaterialized: view\n---\nSELECT SUM(sales) AS sales FROM {models}.daily"
    keep(config, "5d", reader=view)
    assert run(config, "plan")[0] == 0


@pytest.mark.full
@pytest.mark.parametrize("step", OF_RETENTION)
def test_a_death_on_the_way_leaves_nothing_that_the_next_run_does_not_finish(
    place: Place,
    config: Path,  # noqa: F811
    step: str,
) -> None:
    keep(config)
    name = f"m_{config.parent.name}.daily"
    command = [*COMMAND, "run", name, "--config", str(config)]
    environment = {**os.environ, "MIRRORLAKE_FAILPOINT": step}
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    keep(config, "2d")
    died = subprocess.run(command, env=environment, check=False, capture_output=True)
    assert died.returncode not in (0, 1, 2), died.stderr
    keep(config)  # longer again, in between
    left = days_of(place, config)
    states = json.loads(
        subprocess.run(
            [*COMMAND, "show", name, "--config", str(config), "--json"],
            check=True,
            capture_output=True,
        ).stdout
    )["states"]
    assert states == ({"computed": 8} if len(left) == 3 else {"computed": 2, "missing": 6})
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert days_of(place, config) == {"2024-02-28", "2024-02-29", "2024-03-01"}


@pytest.mark.full
@pytest.mark.usefixtures("shared_session")
def test_maintenance_drops_them_and_their_files(place: Place, config: Path) -> None:  # noqa: F811
    keep(config)
    computed(config, "daily")
    before = files_of(place, config)
    keep(config, "2d")
    table = place.lake.load(Identifier(f"m_{config.parent.name}", "daily"))
    assert table is not None
    folder = Path(table.location().removeprefix("file:"))
    for path in folder.rglob("*"):
        os.utime(path, (0, 0))
    opened = load_config(config)
    with Workspace.open(opened, spark=place.spark) as workspace, pytest.MonkeyPatch.context() as on:
        on.setattr("mirrorlake.operations.upkeep.maintain.RETAIN", 1)
        project, *_ = compile_readable(opened, workspace.lake)
        name = f"m_{config.parent.name}.daily"
        assert name in stored_models(workspace, project)
        ages = Ages(keep=timedelta(0), grace=timedelta(0))
        [one] = maintain_model(workspace, project, name, ages)
    assert (one.table, one.layer, one.error) == (name, "model", None)
    assert one.after.versions == 1
    assert days_of(place, config) == {"2024-03-01"}
    assert shown(config)["states"] == {"computed": 2}
    left = {str(path) for path in folder.rglob("*.parquet")}
    assert left == {path.removeprefix("file:") for path in files_of(place, config)}
    assert not any(path.removeprefix("file:") in left for path in before - files_of(place, config))
    # By the command, models are maintained beside the tables.
    code, found = run(config, "maintain", "--json")
    assert code == 0, found
    assert name in {table["table"] for table in found["tables"]}
    code, found = run(config, "maintain", name, "--json")
    assert [table["table"] for table in found["tables"]] == [name]


@pytest.mark.usefixtures("shared_session")
def test_maintenance_leaves_a_table_that_no_model_made(place: Place, config: Path) -> None:  # noqa: F811
    keep(config)
    name = f"m_{config.parent.name}"
    place.lake.make_namespace(name)
    place.spark.get().sql(f"CREATE TABLE lake.{name}.daily (id INT) USING iceberg")
    opened = load_config(config)
    with Workspace.open(opened, spark=place.spark) as workspace:
        project, *_ = compile_readable(opened, workspace.lake)
        assert f"{name}.daily" not in stored_models(workspace, project)
