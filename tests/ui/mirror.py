"""Materialises the chains of some sources for a range of days on the instance in DAGSTER_HOME:
``FIRST LAST SOURCE…``.

Its runs are what the UI then shows. Run in the process that `tests/location/kept_process.py` keeps.
"""

from __future__ import annotations

import os
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


def main(first: str, last: str, *sources: str) -> None:
    path = Path(os.environ["MIRRORLAKE_CONFIG"])
    job = load_definitions(path).resolve_implicit_global_asset_job_def()
    tables = mirrored_tables([c for c in load_config(path).tables if c.source in sources])
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
