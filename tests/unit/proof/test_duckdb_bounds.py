"""DuckDB takes no more memory than it may, puts the rest into the cache folder, and downloads
nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.proof.ranges.ranges import NOTHING
from mirrorlake.proof.sides import duckdb_forms

MORE_THAN_IT_MAY = """
SELECT max(n) FROM (
    SELECT i, row_number() OVER (ORDER BY hash(i)) AS n, hash(i + 1) AS m
    FROM range(4_000_000) t(i) ORDER BY m
)"""


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    monkeypatch.setattr(duckdb_forms, "_MOST_BYTES", 48 * 2**20)
    duckdb_forms._database.cache_clear()
    found = duckdb_forms._database(0, 1)
    yield found
    found.close()
    duckdb_forms._database.cache_clear()


def setting(database: Any, name: str) -> str:
    ((found,),) = database.execute(f"SELECT current_setting('{name}')").fetchall()
    return str(found)


def test_its_bounds(database: Any, tmp_path: Path) -> None:
    assert setting(database, "memory_limit") == "48.0 MiB"
    assert setting(database, "threads") == "1"
    assert Path(setting(database, "temp_directory")).parent == tmp_path / "duckdb"
    for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
        assert setting(database, name) in ("False", "false")


def test_what_is_more_goes_to_the_cache_folder(database: Any, tmp_path: Path) -> None:
    assert database.execute(MORE_THAN_IT_MAY).fetchall() == [(4_000_000,)]
    assert list((tmp_path / "duckdb").iterdir())
    database.close()
    assert not list((tmp_path / "duckdb").iterdir())


def test_no_rows() -> None:
    assert duckdb_forms.tally_of([], []) == NOTHING
    assert list(duckdb_forms.gathered([])) == []


@pytest.mark.parametrize(
    ("at_once", "nbytes", "found"),
    [
        *((5, 2**20, [6, 6, 4]), (4, 2**20, [4, 4, 4, 4])),
        *((10**6, 33, [6, 6, 4]), (10**6, 32, [4, 4, 4, 4])),
    ],
)
def test_rows_are_gathered(
    monkeypatch: pytest.MonkeyPatch, at_once: int, nbytes: int, found: list[int]
) -> None:
    """By their number, and by their size: two numbers take 16 bytes."""
    monkeypatch.setattr(duckdb_forms, "AT_ONCE", at_once)
    monkeypatch.setattr(duckdb_forms, "_BYTES_AT_ONCE", nbytes)
    some = [pa.table({"a": [1, 2]})] * 8
    assert [rows.num_rows for rows in duckdb_forms.gathered(some)] == found


@pytest.mark.parametrize(("memory", "limit"), [(2**30, "128MiB"), (2**36, "512MiB")])
def test_a_part_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, memory: int, limit: str
) -> None:
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": memory // 4096}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    assert duckdb_forms._settings(None)["memory_limit"] == limit
