"""A table of MySQL written as a snapshot, landed and folded: equal to MySQL's, by the oracle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demo.oracle import compare_rows
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError, LandingError
from mirrorlake.landing.export import Exported, export_table
from mirrorlake.landing.land import fold_snapshots, look_for, take_snapshots
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.lakes import READERS
from tests.integration.sources.mysql.test_types import cases_of, make_wide_table, source_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
SMALL = (
    "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, n BIGINT, tiny TINYINT UNSIGNED,"
    " price DECIMAL(38,10), huge DECIMAL(65,30), f FLOAT, x DOUBLE, txt VARCHAR(40),"
    " raw VARBINARY(9), bits BIT(64), e ENUM('a',''), d DATE NOT NULL, at DATETIME(6),"
    " seen TIMESTAMP NULL, span TIME(6))",
    "INSERT IGNORE INTO t VALUES (18446744073709551615, -9223372036854775808, 255,"
    " 1234567890123456789012345678.0123456789, 1e34, 0.1, 0.1, 'größe \"q\"\\n😀', x'00ff',"
    " b'1', 'nothing', '2026-01-31', '2026-01-31 12:00:00.000001', '2026-01-31 12:00:00',"
    " '-838:59:59.000001'),"
    " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-01-01', NULL, NULL,"
    "  NULL),"
    " (3, 0, 0, -0.0000000001, -1, -1e38, -1e308, '', '', 0, '', '0000-00-00',"
    "  '2026-02-00 00:00:00', 0, '00:00:00')",
)


def land(
    place: Place, folder: Path, database: str, table: str, most: int, workspace: Workspace
) -> tuple[Exported, Workspace]:
    """The table exported, landed in another source's name, and folded."""
    config = folder / "landed.yaml"
    landed = f"l{database}"
    text = {
        "version": 1,
        "lake": {"warehouse": str(place.folder / "lake")},
        "ledger": {"url": f"sqlite:///{folder}/landed.db"},
        "sources": {landed: {
            "landing": {"url": str(folder / "out"), "cluster": "s"},
            "databases": {database: {"tables": {table: {"mode": "snapshot", "key": ["id"]}}}}}},
    }  # fmt: skip
    config.write_text(json.dumps(text))
    done = export_table(
        workspace,
        workspace.config.table(table),
        FolderStore(str(folder / "out")),
        packed=True,
        most=most,
    )
    reader = Workspace.open(load_config(config), spark=place.spark)
    contract = reader.config.snapshot_table(table)
    (ready,) = look_for(reader, contract).ready
    take_snapshots(reader, contract, [ready.id])
    (one,) = fold_snapshots(reader, contract, [ready.id])
    assert (one.id, one.rows, one.files, one.published) == (
        done.snapshot, done.rows, done.files, True,
    )  # fmt: skip
    return done, reader


def assert_exact(server: EmbeddedServer, reader: Workspace, database: str, table: str) -> None:
    found = reader.lake.load(Identifier(f"l{database}_{database}", table))
    assert found is not None
    source = source_rows(server, database, table)
    for name, rows in READERS.items():
        held = rows(found).drop_columns(["_mirror_snapshot"])
        verdict = compare_rows(source, ("id",), held)
        assert verdict.equal, f"{name}: {verdict.describe(40)}"


@pytest.mark.full
def test_what_is_exported_lands_and_is_folded_equal(
    server: EmbeddedServer, engine_for: EngineFor, sql: Sql, database: str, place: Place, tmp_path: Path
) -> None:  # fmt: skip
    sql(*SMALL)
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    done, reader = land(place, tmp_path, database, "t", 300, workspace)
    assert (done.rows, done.files) == (3, 3)
    assert_exact(server, reader, database, "t")
    contract = reader.config.snapshot_table("t")
    with pytest.raises(ConfigError, match="comes from a landing"):
        export_table(reader, contract, FolderStore(str(tmp_path / "x")), packed=False)


def test_what_fails_leaves_nothing(engine_for: EngineFor, sql: Sql, tmp_path: Path) -> None:
    """A disk that is full after the first chunk."""
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})

    class Full(FolderStore):
        def create(self, path: str, *, replace: bool = False) -> Any:
            if path.endswith("_2.json"):
                raise LandingError("there is no room", next_step="Make some")
            return super().create(path, replace=replace)

    with pytest.raises(LandingError, match="no room"):
        export_table(
            workspace, workspace.config.table("t"), Full(str(tmp_path)), packed=False, most=9
        )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    done = export_table(
        workspace, workspace.config.table("t"), FolderStore(str(tmp_path)), packed=False, most=9
    )
    assert done.files == 3


@pytest.mark.full
def test_every_type_is_exported_and_landed_equal(
    server: EmbeddedServer, engine_for: EngineFor, sql: Sql, database: str, place: Place, tmp_path: Path
) -> None:  # fmt: skip
    make_wide_table(sql, cases_of(server))
    workspace = engine_for({"wide": {"mode": "full", "key": ["id"]}})
    _, reader = land(place, tmp_path, database, "wide", 10_000, workspace)
    assert_exact(server, reader, database, "wide")
