"""A column that comes between a table's load and its fold: the run that folds it takes it up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.table.lake_tables import deduped_of
from tests.location.conftest import Location

TODAY = str(datetime.now(UTC).date())
TABLES = {
    "copied": {"mode": "full", "key": ["id"]},
    "grows": {"mode": "append", "key": ["id"], "cursor": "id", "overlap_keys": 5},
}
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE added")
        for table in TABLES:
            cursor.execute(f"CREATE TABLE added.{table} (id INT PRIMARY KEY, n INT)")
            cursor.execute(f"INSERT INTO added.{table} VALUES (1, 1), (2, 2)")
        # The runs' `sql` is the mirror's own user's.
        cursor.execute("GRANT ALL ON added.* TO mirror@'%'")
        admin.commit()
    return location_for({"added": {"tables": TABLES}})


@pytest.mark.full
def test_the_fold_loads_it_and_has_mysqls_values(location: Location) -> None:
    change = "ADD COLUMN v INT NOT NULL DEFAULT 7, MODIFY n VARCHAR(9)"
    alter = [f"ALTER TABLE added.{name} {change}" for name in TABLES]
    tags = {"mirrorlake/load": "live"}
    names = list(TABLES)
    loaded, folded, again = location.run(
        [
            {"tables": names, "layers": ["raw"], "day": TODAY, "tags": tags},
            {
                "tables": names,
                "layers": ["deduped", "clean"],
                "day": TODAY,
                "tags": tags,
                "sql": alter,
            },
            {"tables": names, "layers": ["raw"], "day": TODAY, "tags": tags},
        ]
    )
    assert loaded["success"], loaded["failed"]
    assert folded["success"], folded["failed"]
    assert folded["tried again"] == []
    # What was loaded is shown by its version; of a table that had several, all of them.
    before = loaded["made"]["raw/s/added/grows"][TODAY]
    assert "schema versions" not in before
    now = again["made"]["raw/s/added/grows"][TODAY]
    assert now["schema version"] != before["schema version"]
    assert before["schema version"] in now["schema versions"]
    assert "'changes': 'v was added; n was int, is varchar(9)'" in now["schema versions"]
    assert "columns of several types" not in before
    for words in ("'int → varchar(9)'", "'over all versions': 'string'", "exact text"):
        assert words in now["columns of several types"]
    lake = Lake(location.config.lake)
    for name in names:
        table = lake.load(deduped_of(location.config.table(name)))
        assert table is not None
        rows: pa.Table = table.scan(selected_fields=("id", "v")).to_arrow()
        assert sorted(rows.to_pylist(), key=lambda row: row["id"]) == [
            {"id": 1, "v": 7},
            {"id": 2, "v": 7},
        ]
