"""One BigQuery and one bucket for all tests here; each has the dataset of its own database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.support.bigquery.cloud import Cloud
from tests.support.bigquery.emulator import google_cloud
from tests.support.bigquery.live import PROJECT_VARIABLE, LiveCloud, live_cloud

LONG = {"wait": "2m"}
# Not skipped: nobody is to read that it was looked at.
_GOOGLES = ["test_google_alone.py"]
collect_ignore = [] if os.environ.get(PROJECT_VARIABLE) else _GOOGLES


@pytest.fixture(scope="session")
def running_cloud() -> Iterator[Cloud]:
    """Emulators; where somebody names a project of theirs, Google."""
    project = os.environ.get(PROJECT_VARIABLE)
    with live_cloud(project) if project else google_cloud() as cloud:
        yield cloud


@pytest.fixture
def cloud(running_cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """Both services, which this process takes for Google's."""
    for name, value in running_cloud.environment().items():
        monkeypatch.setenv(name, value)
    yield running_cloud
    if isinstance(running_cloud, LiveCloud):
        billed, most = running_cloud.billed(), running_cloud.most_billed
        if billed > most:
            pytest.exit(f"the run's queries billed {billed:,} bytes, and {most:,} are allowed", 3)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


@pytest.fixture
def dataset(cloud: Cloud, database: str) -> str:
    """The dataset of the test's database; those of its views are there, too."""
    name = f"s_{database}"
    for dataset in (name, f"{name}__views_clean", f"{name}__views_full"):
        cloud.make_dataset(dataset)
    return name


@pytest.fixture
def raw(cloud: Cloud, dataset: str) -> str:
    """The dataset that raw of the test's database is loaded into; the others are there, too."""
    cloud.make_dataset(f"{dataset}__raw")
    return f"{dataset}__raw"


@pytest.fixture
def mirror(
    server: EmbeddedServer, place: Place, database: str, cloud: Cloud
) -> Callable[..., Workspace]:
    """A workspace over tables that are published in BigQuery: ``mirror({"orders": {…}})``."""

    def make(tables: dict[str, Any], **bigquery: Any) -> Workspace:
        section = {**cloud.section(), **LONG, **bigquery}
        path = write_contract(
            place.folder / f"{database}.yaml",
            server.port,
            {database: {"tables": tables}},
            bigquery=section,
            defaults={"verify": False, "publish": ["lake", "bigquery"]},
            # What changed in a layer is to be loaded, and small ones are written again as a whole.
            spark={"folds_from": 0},
        )
        return Workspace.open(load_config(path), spark=place.spark)

    return make
