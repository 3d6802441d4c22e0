"""What the engine logs stands in the log of the run, by the settings of `dagster.yaml`."""

from __future__ import annotations

import logging
from pathlib import Path

import dagster as dg

from mirrorlake.table.progress import Pace
from tests.location.conftest import ROOT


@dg.op
def read() -> None:
    pace = Pace("s.d.t", "abc", 100, None)
    pace._logged -= 60
    pace.advance(10, 1_000)
    logging.getLogger("elsewhere").info("somebody else's")


@dg.job
def load() -> None:
    read()


def test_how_far_a_load_is_stands_in_the_runs_log(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        result = load.execute_in_process(instance=instance)
        said = [entry.user_message for entry in instance.all_logs(result.run_id)]
    (line,) = [text for text in said if "load abc" in text]
    assert line.startswith("table s.d.t load abc: 10 of about 100 rows, 0 MB")
    assert not [text for text in said if "somebody" in text]
