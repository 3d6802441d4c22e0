"""Servers that answer for Google's of who may do what, and the emulators of BigQuery's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.ledger import Ledger
from tests.integration.bigquery.conftest import cloud, running_cloud
from tests.support.bigquery.access_server import Datasets, datasets_server

__all__ = ["cloud", "running_cloud"]


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> Iterator[Datasets]:
    """A server of who may do what, without a dataset, which this process takes for Google's."""
    with datasets_server() as found:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", found.url)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", found.url)
        yield found


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
