"""Columns that become wider in MySQL: taken up by a first load of their own; the layers' columns
become wider in place, and hold what MySQL holds.

MySQL is read and compared by the oracle, which shares no code with the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.views import read_view, write_view
from mirrorlake.operations.checking.check_layers import prove_clean_layer
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration import mirrored
from tests.integration.mirrored import INCREMENTAL, assert_equal, assert_goes_on, in_modes, rows_of

YESTERDAY = datetime.now(UTC).date() - timedelta(days=1)
BIG = 2**40
COLUMNS = {
    "id": ("INT", "BIGINT"),
    "n": ("INT", "BIGINT"),
    "small": ("TINYINT", "INT UNSIGNED"),
    "d": ("DECIMAL(8,2)", "DECIMAL(20,2)"),
    "f": ("FLOAT", "DOUBLE"),
    "s": ("VARCHAR(5)", "VARCHAR(50)"),
    "cut": ("VARCHAR(50)", "VARCHAR(20)"),
    "e": ("ENUM('a','b')", "ENUM('c','b','a')"),
    "body": ("TEXT", "MEDIUMTEXT"),
}
MODES: dict[str, dict[str, Any]] = {
    **mirrored.MODES,
    "stored": {**mirrored.MODES["full"], "clean": "table", "columns": {"s": {"pii": "mask"}}},
}


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def make(sql: Callable[..., Any]) -> None:
    columns = ", ".join(f"{name} {before}" for name, (before, _) in COLUMNS.items())
    sql(
        f"CREATE TABLE t ({columns}, at DATETIME NOT NULL, PRIMARY KEY (id), KEY (at))",
        *(
            f"INSERT INTO t VALUES ({n}, {-n}, {n}, {n}.25, 0.{n}, 's{n}', 'c{n}', 'a', 'b{n}', "
            f"'{YESTERDAY} 0{n}:00:00')"
            for n in range(1, 9)
        ),
    )


def widen(sql: Callable[..., Any]) -> None:
    changes = ", ".join(f"MODIFY {name} {now}" for name, (_, now) in COLUMNS.items())
    sql(
        f"ALTER TABLE t {changes}",
        f"INSERT INTO t VALUES ({BIG}, {-BIG}, 4000000000, 123456789012345678.25, 1e300, "
        f"REPEAT('s', 50), 'c', 'c', REPEAT('b', 70000), '{YESTERDAY} 12:00:00')",
        f"UPDATE t SET n = {BIG}, s = REPEAT('x', 30), at = at + INTERVAL 8 HOUR WHERE id = 3",
    )


@pytest.mark.full
@in_modes(MODES, often=["incremental"])
def test_the_layers_become_wider_and_hold_mysqls_values(
    mode: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql)
    workspace = engine_for({"t": MODES[mode]})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    widen(sql)
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
    kinds = {f.name: str(f.type) for f in rows_of(workspace, "deduped").schema}
    assert kinds["n"] == "int64"
    assert kinds["d"] == "decimal128(20, 2)"
    assert kinds["f"] == "double"
    assert_goes_on(
        workspace, server, database, YESTERDAY, sql,
        f"INSERT INTO t VALUES ({BIG + 1}, 1, 1, 1, 1, '', '', 'a', '', UTC_TIMESTAMP())",
        f"UPDATE t SET d = 1, at = UTC_TIMESTAMP() WHERE id = {BIG} AND '{mode}' <> 'append'",
    )  # fmt: skip
    view = f"{contract.namespaces.raw}.t"
    raw = workspace.spark.get().table(f"lake.{view}")
    assert dict(raw.dtypes)["n"] == "bigint"
    assert {row.n for row in raw.select("n").where("id <= 2").collect()} == {-1, -2}


@pytest.mark.full
def test_readers_of_a_clean_view_meet_no_error(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark takes no BIGINT for the INT that the view declares."""
    make(sql)
    workspace = engine_for({"t": {**INCREMENTAL, "clean": "view"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    widen(sql)
    clean = f"lake.{contract.namespaces.clean}.t"
    kinds: list[str] = []

    def look(*_: object) -> None:
        found = workspace.spark.get().table(clean)
        kinds.append(dict(found.dtypes)["n"])
        assert {row.n for row in found.where("id <= 2").collect()} == {-1, -2}

    for place in (
        "mirrorlake.merge.fold",
        "mirrorlake.merge.overwrite",
        "mirrorlake.operations.loading.fold",
    ):
        monkeypatch.setattr(f"{place}.failpoint", look)
    sync_table(workspace, contract)
    look()
    assert list(dict.fromkeys(kinds)) == ["int", "bigint"]
    assert prove_clean_layer(workspace, contract).proof.verdict == "equal"
    # As an earlier release left it.
    monkeypatch.undo()
    name = Identifier(contract.namespaces.clean, "t")
    there = read_view(workspace.lake, name)
    assert there is not None
    narrow = there.schema.fields[1].model_copy(update={"field_type": IntegerType()})
    fields = (there.schema.fields[0], narrow, *there.schema.fields[2:])
    assert write_view(workspace.lake, name, replace(there, schema=Schema(*fields)))
    assert "can't be read" in prove_clean_layer(workspace, contract).proof.words
    sql(f"UPDATE t SET s = 'again', at = at + INTERVAL 9 HOUR WHERE id = {BIG}")
    sync_table(workspace, contract)
    look()


@pytest.mark.full
def test_a_row_that_mysql_lost_before_keeps_its_values(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": {**INCREMENTAL, "deletes": "ignore"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("DELETE FROM t WHERE id = 5")
    widen(sql)
    sync_table(workspace, contract)
    refold_table(workspace, contract)
    kept = rows_of(workspace, "deduped").filter(pa.compute.field("id") == 5).to_pylist()
    assert [(row["n"], row["d"], row["f"], row["s"]) for row in kept] == [
        (-5, Decimal("5.25"), 0.5, "s5")
    ]
