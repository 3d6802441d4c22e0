"""The steps that errors advise, taken one after another on one table: each helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError, LakeError, ProofError, SchemaError
from mirrorlake.operations.refold import refold_table
from mirrorlake.operations.sync import sync_table
from mirrorlake.proof.check import check_table
from mirrorlake.proof.report import Ask
from mirrorlake.serving.clean_version import open_clean
from mirrorlake.workspace import Workspace

TERMS: dict[str, Any] = {"mode": "incremental", "key": ["id"], "cursor": "at"}


def test_a_sync_that_is_advised_helps(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    def opened(**more: Any) -> tuple[Workspace, TableContract]:
        workspace = engine_for({"t": {**TERMS, **more}})
        return workspace, workspace.config.table("t")

    def helps(workspace: Workspace, contract: TableContract) -> None:
        sync_table(workspace, contract)
        assert check_table(workspace, contract, Ask()).verdict == "equal"

    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, at DATETIME NOT NULL, KEY (at))",
        "INSERT INTO t VALUES (1, 1, '2020-01-01'), (2, 2, '2020-01-01')",
    )
    now = opened()
    with pytest.raises(ProofError, match=r"not mirrored yet: .* Sync it first"):
        check_table(*now, Ask())
    with pytest.raises(ConfigError, match=r"no load of it succeeded, .* Sync it first"):
        refold_table(*now)
    helps(*now)
    sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
    with pytest.raises(SchemaError, match=r"since it was loaded: w was added. Sync it first"):
        check_table(*now, Ask())
    with pytest.raises(SchemaError, match=r"since it was loaded. Sync it first"):
        refold_table(*now)
    helps(*now)
    refold_table(*now)
    now = opened(deletes="flag")
    with pytest.raises(ProofError, match=r"deletes are to be flagged, .* Sync it first"):
        check_table(*now, Ask())
    helps(*now)
    workspace, contract = now
    # As after an edit that makes a column another one: dropped, it is rebuilt from raw.
    workspace.lake.catalog.drop_table((contract.namespaces.deduped, "t"))
    with pytest.raises(ProofError, match=r"not mirrored yet: .* Sync it first"):
        check_table(*now, Ask())
    helps(*now)
    view = Identifier(contract.namespaces.clean, "t")
    workspace.spark.get().sql(f"CREATE OR REPLACE VIEW {view.sql} AS SELECT 1 AS id")
    with pytest.raises(LakeError, match=r"it may show what the contract hides. Sync the table"):
        open_clean(*now)
    helps(*now)
    assert open_clean(*now).table().num_rows == 2
