"""Materialises every chain for a range of days on the instance in DAGSTER_HOME: ``FIRST LAST``.

In one process, and so one JVM; its runs are what the UI then shows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.table import mirrored_tables
from dagster_mirrorlake.tenants import mirrored_tenants
from mirrorlake.config import load_config
from tests.support.unflushed import write_unflushed


def main(first: str, last: str) -> None:
    write_unflushed()
    path = Path(os.environ["MIRRORLAKE_CONFIG"])
    job = load_definitions(path).resolve_implicit_global_asset_job_def()
    tables = mirrored_tables(load_config(path).tables)
    tags = {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}
    with dg.DagsterInstance.get() as instance:
        done = job.execute_in_process(
            instance=instance, asset_selection=[k for t in tables for k in t.chain_keys], tags=tags
        )
        assert done.success
        # Without partitions, so in a run of its own; with the checks that a sensor's run makes.
        for tenants in mirrored_tenants(load_config(path).tenants):
            done = job.execute_in_process(instance=instance, asset_selection=tenants.chain_keys)
            assert done.success


if __name__ == "__main__":
    main(*sys.argv[1:])
