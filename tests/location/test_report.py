"""The report as an asset: there where a table is, and its materialisation is a page."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_mirrorlake.location import load_definitions
from mirrorlake.config import load_config
from mirrorlake.ledger import Ledger
from tests.location.contracts import SMALL
from tests.unit.alerts.test_late_tables import loaded


def test_its_materialisation_writes_the_page_and_shows_its_figures(contract_file: Any) -> None:
    path: Path = contract_file(SMALL)
    loaded(Ledger(load_config(path).ledger.url), datetime.now(UTC), "orders")
    defs = load_definitions(path)
    page = path.parent / ".mirrorlake" / "report.html"
    for _ in range(2):  # the second takes the first one's place
        with dg.DagsterInstance.ephemeral() as instance:
            job = defs.resolve_implicit_global_asset_job_def()
            result = job.execute_in_process(
                instance=instance,
                asset_selection=[dg.AssetKey("report")],
                run_config={"ops": {"report": {"config": {"days": 7}}}},
            )
        assert result.success
        (made,) = result.asset_materializations_for_node("report")
    found = {name: value.value for name, value in made.metadata.items()}
    assert Path(str(found["page"])) == page.resolve()
    assert found["open it"] == page.resolve().as_uri()
    assert found["bytes"] == page.stat().st_size
    assert found["tables"] == page.read_text("utf-8").count('<details class="table"')
    assert found["tables: not compared"] == found["tables"]


def test_there_is_none_without_a_table(contract_file: Any) -> None:
    defs = load_definitions(contract_file({}))
    keys = defs.resolve_asset_graph().get_all_asset_keys()
    assert dg.AssetKey("report") not in keys
