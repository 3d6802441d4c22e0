"""A real Trino reads the same rows; with ``MIRRORLAKE_TRINO`` alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.checking.readers import compare_readers
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.operations.test_readers import EVERY_TYPE, ROWS
from tests.support.trino_process import trino_over


@pytest.fixture(scope="module")
def trino(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with trino_over(place.folder / "lake", tmp_path_factory.mktemp("trino")) as url:
        yield url


@pytest.mark.full
def test_four_engines_read_the_same_rows(
    trino: str, with_trino: Callable[..., Workspace], sql: Callable[..., Any], place: Place
) -> None:
    sql(EVERY_TYPE, ROWS, "INSERT INTO t (id) SELECT seq FROM seq_10_to_30")
    workspace = with_trino(trino)
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(
        "UPDATE t SET s = 'new', at = UTC_TIMESTAMP(6) WHERE id IN (2, 11)",
        "ALTER TABLE t ADD COLUMN `MORE é` INT",
        "INSERT INTO t (id, `MORE é`) VALUES (40, 1)",
        "INSERT INTO t (id, f, g) VALUES (50, 0.1, 0.1), (51, -3.40282347e38, 5e-324),"
        " (52, 1.40129846e-45, -1.7976931348623157e308), (53, 16777216, 9007199254740993)",
    )
    sync_table(workspace, contract)
    identifier = Identifier(contract.namespaces.deduped, "t")
    # Deletes by position stand beside the data.
    place.spark.get().sql(f"DELETE FROM {identifier.sql} WHERE id = 12")
    for found in compare_readers(workspace, contract):
        said = [(one.reader, one.rows, one.digest, one.words) for one in found.readings]
        assert (found.verdict, found.words) == ("equal", ""), said
        assert [one.reader for one in found.readings if one.rows] == [
            *("PyIceberg", "DuckDB", "Spark", "Trino"),
        ]
        assert len({one.digest for one in found.readings}) == 1


@pytest.mark.full
def test_what_trino_refuses_is_undecided(
    trino: str, with_trino: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql(EVERY_TYPE, ROWS)
    workspace = with_trino(trino, catalog="nope")
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    [found, _] = compare_readers(workspace, contract)
    assert found.verdict == "undecided"
    assert "Catalog 'nope' not found" in found.words
