"""The run on Google Cloud, tried on emulators that it takes for Google's; and what emulators alone
have: a second project."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.cloud import bigquery

from mirrorlake.runtime.google.clients import open_storage
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import (
    FIFTY,
    INCREMENTAL,
    TABLE,
    checked,
    published,
    synced,
)
from tests.support.bigquery.emulator import BUCKET, PROJECT, GoogleCloud
from tests.support.bigquery.live import LABEL, PROJECT_VARIABLE

ROOT = Path(__file__).parents[3]


@pytest.mark.full
def test_a_run_on_google_leaves_nothing_and_touches_nothing_else(cloud: GoogleCloud) -> None:
    left = bigquery.Dataset(f"{PROJECT}.of_a_run_that_died")
    left.labels = {LABEL: "yes"}
    cloud.client().create_dataset(left)
    cloud.make_dataset("of_somebody_else")
    open_storage(PROJECT).create_bucket("mirrorlake-live-of-a-run-that-died")
    environ = {**os.environ, **cloud.environment(), PROJECT_VARIABLE: PROJECT}
    where = "tests/integration/bigquery/test_exact.py"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "live", "-p", "no:cacheprovider", where]
    ran = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "1 passed" in ran.stdout
    there = {str(one.dataset_id) for one in cloud.client().list_datasets()}
    assert "of_a_run_that_died" not in there
    assert "of_somebody_else" in there
    assert {bucket.name for bucket in open_storage(PROJECT).list_buckets()} == {BUCKET}


@pytest.mark.full
def test_another_dataset_is_another_home(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: GoogleCloud, dataset: str
) -> None:
    sql(TABLE, FIFTY)
    synced(mirror({"t": INCREMENTAL}))
    moved = mirror({"t": INCREMENTAL}, project="another", views=[])
    assert checked(moved).verdict == "undecided"
    cloud.client().create_dataset(f"another.{dataset}")
    again = published(moved)
    assert (again.how, again.why) == ("all rows", "it is the first load")
    assert checked(moved).verdict == "equal"
