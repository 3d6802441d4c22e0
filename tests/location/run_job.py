"""One run of a location's chains by the location's own executor: ``config run_id table…``.

A process of its own, as the run launcher starts one; ``DAGSTER_HOME`` has the instance."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.execution.api import execute_run
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config import load_config
from tests.location.run_steps import _without_proofs

defs = dg.Definitions()
"""All that is in the location but the proofs; Dagster finds it by its name."""
if "TEST_CONFIG" in os.environ:
    defs = _without_proofs(load_definitions(Path(os.environ["TEST_CONFIG"])))


def main(path: str, run_id: str, *names: str) -> int:
    os.environ["TEST_CONFIG"] = path
    config = load_config(Path(path))
    tables = [MirroredTable(config.table(name)) for name in names]
    day = str(datetime.now(UTC).date())
    selection = frozenset(key for table in tables for key in table.chain_keys)
    here = ReconstructableRepository.for_module("tests.location.run_job", "defs", str(Path.cwd()))
    job = here.get_reconstructable_job("__ASSET_JOB")
    with dg.DagsterInstance.get() as instance:
        run = instance.create_run_for_job(
            job.get_definition(),
            run_id=run_id,
            asset_selection=selection,
            tags={
                ASSET_PARTITION_RANGE_START_TAG: day,
                ASSET_PARTITION_RANGE_END_TAG: day,
                "mirrorlake/load": "live",
            },
        )
        return 0 if execute_run(job, run, instance).success else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
