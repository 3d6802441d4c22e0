"""Batches as they run: the entry as a process of its own over a real server, and a bucket's messages."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_pipes import PipesGCSMessageWriter

from dagster_mirrorlake.batches import LocalBatches, build_batch_job
from dagster_mirrorlake.batches.messages import BucketMessages
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.google.clients import open_storage
from tests.location.conftest import Location
from tests.support.bigquery.emulator import BUCKET, PROJECT, google_cloud

pytestmark = pytest.mark.full
TABLES = {name: {"mode": "full", "key": ["id"]} for name in ("kinds", "gone")}


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE batches")
        cursor.execute("CREATE TABLE batches.kinds (id INT PRIMARY KEY, name VARCHAR(9))")
        cursor.execute("INSERT INTO batches.kinds VALUES (1, 'a'), (2, 'b')")
    return location_for({"batches": {"tables": TABLES}})


def test_a_batch_syncs_and_folds_what_it_is_told(location: Location, tmp_path: Path) -> None:
    here = LocalBatches(str(location.path), tmp_path)
    job = build_batch_job(location.config, here)

    def run(**config: Any) -> Any:
        return job.execute_in_process(
            run_config={"ops": {"in_a_batch_step": {"config": config}}}, raise_on_error=False
        )

    good = run(tables=["kinds"])
    assert good.success
    (output,) = [one for one in good.all_events if one.is_successful_output]
    assert "2 rows, 1 load folded" in output.step_output_data.metadata["tables"].value
    ledger = Ledger(location.config.ledger.url)
    (load,) = ledger.loads("s.batches.kinds")
    assert load.state == "success"
    # One table that fails is said with its reason, beside one that is well.
    bad = run()
    (failed,) = [one for one in bad.all_events if one.is_step_failure]
    said = failed.step_failure_data.user_failure_data
    assert said.description.startswith("table s.batches.gone: failed: ")
    assert "s.batches.kinds | unchanged" in said.metadata["tables"].value
    folded = run(task="fold", tables=["kinds"])
    assert folded.success


def test_messages_go_by_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    with google_cloud() as cloud:
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        reader = BucketMessages(PROJECT, BUCKET, "batches/b-1", 1)
        with reader.get_params() as params:
            assert isinstance(reader, dg.PipesMessageReader)
            assert reader.download_messages(None, params) is None
            channel = PipesGCSMessageWriter(open_storage(PROJECT), interval=1).make_channel(params)
            channel.upload_messages_chunk(io.StringIO('{"a": 1}\n'), 1)
            found = reader.download_messages(None, params)
            assert found is not None
            assert found[1] == '{"a": 1}\n'
            again = BucketMessages(PROJECT, BUCKET, "batches/b-1", 1)
            assert again.download_messages(None, params) == found
