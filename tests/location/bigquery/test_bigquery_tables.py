"""A table that others make in BigQuery, as Dagster observes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.location.bigquery.test_bigquery import with_section
from tests.location.models.test_models import SALES, definitions, node
from tests.support.bigquery.emulator import PROJECT, google_cloud


def test_its_page_says_who_writes_it_and_what_readers_see(
    contract_file: Callable[[Any], Path],
) -> None:
    path = with_section(contract_file(SALES))
    file = path.parent / "models" / "made" / "there.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "format: bigquery\ntable: app.there\ncolumns: {n: bigint, Email: string, at: date}\n"
        "hidden: [email]\nclean: {email: mask}\ndescription: What people click on.\n"
    )
    page = node(definitions(path, {}), "made/there")
    assert page.description == (
        "What people click on.\n\nWritten by others, and read by Mirrorlake as `made.there`. Columns"
        " tagged `hidden` reach no model. Its view for readers is `local.app__views_clean.there`."
    )
    assert page.metadata["dagster/table_name"] == "app.there"
    columns = page.metadata["dagster/column_schema"].columns
    assert {one.name: one.tags for one in columns} == {
        "n": {},
        "Email": {"hidden": "", "clean": "mask"},
        "at": {},
    }
    file.write_text("format: bigquery\ntable: app.there\ncolumns: {n: bigint}\n")
    page = node(definitions(path, {}), "made/there")
    assert page.description == "Written by others, and read by Mirrorlake as `made.there`."


@pytest.mark.full
def test_it_is_observed_when_it_moved(
    contract_file: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = contract_file(SALES)
    file = path.parent / "models" / "made" / "there.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"format: bigquery\ntable: {PROJECT}.made.there\ncolumns: {{n: bigint}}\n")
    defs = definitions(path, {})
    assert node(defs, "made/there").kinds == {"bigquery"}
    with google_cloud() as cloud, dg.DagsterInstance.ephemeral() as instance:
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)

        def tick(cursor: str | None) -> Any:
            context = dg.build_sensor_context(
                instance=instance,
                cursor=cursor,
                repository_def=defs.get_repository_def(),
                resources=dict(defs.resources or {}),
            )
            with context:
                return defs.resolve_sensor_def("made_elsewhere").evaluate_tick(context)

        # It is not there: its check is requested, to fail.
        assert len(tick(None).run_requests) == 1
        client = cloud.client()
        client.create_dataset("made")
        client.query_and_wait("CREATE TABLE made.there (n INT64)")
        client.query_and_wait("INSERT INTO made.there VALUES (1), (2)")
        first = tick(None)
        event, contract = first.asset_events
        assert contract.passed
        assert event.metadata["dagster/row_count"].value == 2
        assert event.metadata["dagster/last_updated_timestamp"].value > 0
        assert "files" not in event.metadata
        assert tick(first.cursor).skip_message == "None of 1 tables changed"
        client.query_and_wait("INSERT INTO made.there VALUES (3)")
        event, _ = tick(first.cursor).asset_events
        assert event.metadata["dagster/row_count"].value == 3
