"""One BigQuery and one bucket for all tests here; each has the dataset of its own database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demo.embedded import EmbeddedServer
from mirrorlake.config import load_config
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.support.bigquery.emulator import BUCKET, PROJECT, GoogleCloud, google_cloud

LONG = {"wait": "2m"}


@pytest.fixture(scope="session")
def running_cloud() -> Iterator[GoogleCloud]:
    with google_cloud() as cloud:
        yield cloud


@pytest.fixture
def cloud(running_cloud: GoogleCloud, monkeypatch: pytest.MonkeyPatch) -> GoogleCloud:
    """Both services, which this process takes for Google's."""
    for name, value in running_cloud.environment().items():
        monkeypatch.setenv(name, value)
    return running_cloud


@pytest.fixture
def dataset(cloud: GoogleCloud, database: str) -> str:
    """The dataset of the test's database; those of its views are there, too."""
    name = f"s_{database}"
    for dataset in (name, f"{name}__views_clean", f"{name}__views_full"):
        cloud.client().create_dataset(dataset)
    return name


@pytest.fixture
def mirror(
    server: EmbeddedServer, place: Place, database: str, cloud: GoogleCloud
) -> Callable[..., Workspace]:
    """A workspace over tables that are published in BigQuery: ``mirror({"orders": {…}})``."""

    def make(tables: dict[str, Any], **bigquery: Any) -> Workspace:
        section = {"project": PROJECT, "bucket": BUCKET, **LONG, **bigquery}
        path = write_contract(
            place.folder / f"{database}.yaml",
            server.port,
            {database: {"tables": tables}},
            bigquery=section,
            defaults={"verify": False, "publish": ["lake", "bigquery"]},
        )
        return Workspace.open(load_config(path), spark=place.spark)

    return make
