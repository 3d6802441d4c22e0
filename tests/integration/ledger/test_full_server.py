"""A Postgres whose connections are all taken, by runs that will end: one is waited for, and a run
that waits keeps none that it does not use."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from mirrorlake.config.settings import CatalogConfig, LakeConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LakeError, LedgerError
from mirrorlake.ledger import Ledger
from mirrorlake.runtime import database_waits
from tests.support.postgres import Postgres, running_postgres

MOST = 6
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres(MOST) as server:
        with server.admin() as admin:
            for name in ("ledger", "catalog"):
                admin.execute(f"CREATE DATABASE {name}")
        yield server


def take_all(postgres: Postgres, held: ExitStack) -> psycopg.Connection[tuple[object, ...]]:
    """Take every connection that is left, those too that are about to be given back; the last."""
    last = held.enter_context(postgres.admin())
    until = time.monotonic() + 1
    while time.monotonic() < until:
        try:
            last = held.enter_context(postgres.admin())
        except psycopg.OperationalError:
            time.sleep(0.1)
    return last


def lake_of(postgres: Postgres, folder: Path, wait: float) -> Lake:
    catalog = {"uri": postgres.url("catalog"), "wait": timedelta(seconds=wait)}
    given = LakeConfig(warehouse=str(folder / "lake"))
    return Lake(given.model_copy(update={"catalog": CatalogConfig().model_copy(update=catalog)}))


def test_a_connection_that_becomes_free_is_taken(
    postgres: Postgres,
) -> None:
    with ExitStack() as held:
        threading.Timer(1.5, take_all(postgres, held).close).start()
        begun = time.monotonic()
        assert Ledger(postgres.url("ledger"), timedelta(seconds=30)).identity()
        assert 1 < time.monotonic() - begun < 20


def test_the_error_says_what_to_set(postgres: Postgres, tmp_path: Path) -> None:
    with ExitStack() as held:
        take_all(postgres, held)
        with pytest.raises(LedgerError, match="too many clients") as ledger:
            Ledger(postgres.url("ledger"), timedelta(seconds=1))
        with pytest.raises(LakeError, match="too many clients") as lake:
            lake_of(postgres, tmp_path, 1)
    for error in (ledger.value, lake.value):
        assert "max_connections" in error.next_step
        assert error.retryable


@pytest.mark.parametrize("gives_back", [True, False])
def test_who_waits_for_the_catalog_keeps_no_idle_connection_to_the_ledger(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gives_back: bool
) -> None:
    """Else runs that each hold one would wait for one another."""
    if not gives_back:
        monkeypatch.setattr(database_waits, "_give_back_idle", lambda _: None)
    with ExitStack() as held:
        ledger = Ledger(postgres.url("ledger"), timedelta(seconds=5))
        take_all(postgres, held)
        if gives_back:
            lake = lake_of(postgres, tmp_path, 5)
            assert lake.tables_named() == {}
            assert ledger.identity(), "it takes the catalog's in its turn"
        else:
            with pytest.raises(LakeError, match="too many clients"):
                lake_of(postgres, tmp_path, 2)
