"""A catalog that a REST server keeps: what both clients are told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from pyiceberg.exceptions import CommitStateUnknownException, ForbiddenError, NoSuchTableError

from mirrorlake.config.settings import CatalogConfig, LakeConfig
from mirrorlake.destinations.iceberg.catalog import connection as catalog
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.rest import rest_errors
from mirrorlake.destinations.iceberg.spark.settings import catalog_settings
from mirrorlake.errors import CatalogFailed, LakeError

ADDRESS = "https://h:8181/catalog"
URI = "https://me:hunter2@h:8181/catalog"
PROPERTIES = {"warehouse": "mirror", "scope": "x", "py-io-impl": "p.Q", "ssl.verify": "false"}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """A connection whose server is not asked."""

    def open_nothing(properties: dict[str, str]) -> Any:
        return properties

    monkeypatch.setattr(catalog, "_open", open_nothing)
    found = CatalogConfig(uri=ADDRESS, wait=timedelta(seconds=7), properties=PROPERTIES)
    return Connection(LakeConfig(warehouse=str(tmp_path / "lake"), catalog=found))


def test_both_clients_have_the_address_and_the_properties(lake: Connection) -> None:
    ours: Any = lake.catalog
    assert ours == {**PROPERTIES, "type": "rest", "uri": ADDRESS, "mirrorlake.wait-seconds": "7"}
    settings = catalog_settings(lake)
    prefix = "spark.sql.catalog.lake."
    sparks = {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
    assert sparks == {
        "type": "rest",
        "uri": ADDRESS,
        "warehouse": "mirror",
        "scope": "x",
        "cache-enabled": "false",
        "rest.client.socket-timeout-ms": "7000",
        "rest.client.connection-timeout-ms": "7000",
    }


@pytest.mark.parametrize(
    ("raised", "kind", "words", "retryable"),
    [
        (ForbiddenError("Forbidden: no"), LakeError, "refuses this account: Forbidden: no", False),
        (requests.ReadTimeout("slow\nvery"), CatalogFailed, "can't be reached: slow. See", True),
        (CommitStateUnknownException(""), CatalogFailed, "CommitStateUnknownException", True),
        (NotImplementedError("no views"), LakeError, "can't do what was requested: no", False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_server_says_is_one_line(
    raised: Exception, kind: type[LakeError], words: str, retryable: bool
) -> None:
    with pytest.raises(kind) as caught, rest_errors(URI, "s.t"):
        raise raised
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.retryable is retryable


def test_what_is_not_there_is_no_error_of_the_server() -> None:
    with (
        pytest.raises(NoSuchTableError),
        rest_errors(URI, "s.t"),
    ):
        raise NoSuchTableError("t")
