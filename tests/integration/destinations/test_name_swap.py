"""A table takes another one's name, or is named by another metadata file, and no reader in a loop
finds none of that name: in a SQL catalog, and in a REST catalog that registers over a table."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from mirrorlake.config.settings import CatalogConfig, LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.name_swap import take_name
from tests.support.rest_catalog import CREDENTIAL, RestCatalogServer, running_catalog

NAME, NEXT = Identifier("d", "t"), Identifier("d", "t__next")
ROUNDS = 15


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestCatalogServer]:
    (tmp_path / "rest").mkdir()
    with running_catalog(tmp_path / "rest", f"file://{tmp_path}/unused") as server:
        yield server


@pytest.fixture(params=["sql", pytest.param("rest", marks=pytest.mark.full)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    settings = LakeConfig(warehouse=str(tmp_path / "lake"))
    if request.param == "rest":
        settings = _of_rest(tmp_path, request.getfixturevalue("rest"))
    return Lake(settings)


def _of_rest(folder: Path, server: RestCatalogServer) -> LakeConfig:
    properties = {
        "credential": CREDENTIAL,
        "oauth2-server-uri": f"{server.uri}/v1/oauth/tokens",
    }
    # As loading a contract file leaves it: the credential is in the environment.
    catalog = CatalogConfig(uri=server.uri).model_copy(update={"properties": properties})
    return LakeConfig(warehouse=str(folder / "lake"), catalog=catalog)


def make(lake: Lake, name: Identifier, rows: int) -> None:
    data = pa.table({"id": list(range(rows))})
    lake.make_namespace(name.namespace)
    at = f"{lake.location(NAME)}"
    lake.catalog.create_table(name.path, data.schema, location=at).append(data)


@contextmanager
def reading(catalog: Catalog) -> Iterator[set[str]]:
    """What readers of the name found, in a loop, until the block ends."""
    found, done = set[str](), threading.Event()

    def loop() -> None:
        while not done.is_set():
            try:
                rows = catalog.load_table(NAME.path).scan().to_arrow().num_rows
                found.add(f"{rows} rows")
            except NoSuchTableError:
                found.add("no table")

    reader = threading.Thread(target=loop)
    reader.start()
    try:
        yield found
    finally:
        done.set()
        reader.join()


def test_a_name_is_never_without_a_table(lake: Lake) -> None:
    make(lake, NAME, 1)
    with reading(Lake(lake.config).catalog) as found:
        for number in range(ROUNDS):
            make(lake, NEXT, 2 + number % 2)
            take_name(lake, NEXT, NAME)
            assert lake.count_rows(NAME) == 2 + number % 2
            assert lake.load(NEXT) is None
    assert found <= {"1 rows", "2 rows", "3 rows"}
    assert len(found) > 1


def test_a_table_that_is_set_to_other_metadata_is_always_there(lake: Lake) -> None:
    make(lake, NAME, 1)
    table = lake.load(NAME)
    assert table is not None
    old = table.metadata_location
    table.append(pa.table({"id": [7]}))
    new = table.metadata_location
    with reading(Lake(lake.config).catalog) as found:
        for number in range(ROUNDS):
            lake.name_metadata(NAME, (old, new)[number % 2])
            assert lake.count_rows(NAME) == 1 + number % 2
    assert found <= {"1 rows", "2 rows"}


def test_a_server_that_registers_over_nothing_gives_the_name_all_the_same(
    rest: RestCatalogServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an older specification: it takes no notice of what it does not know."""
    lake = Lake(_of_rest(tmp_path, rest))
    made = lake.catalog.register_table
    monkeypatch.setattr(
        lake.catalog, "register_table", lambda name, at, overwrite=False: made(name, at)
    )
    make(lake, NAME, 1)
    make(lake, NEXT, 2)
    take_name(lake, NEXT, NAME)
    assert (lake.count_rows(NAME), lake.load(NEXT)) == (2, None)
    assert not lake.register_over(NAME, "file:///nowhere")
