"""Columns and values that nobody decided on: held out of clean, or said, until the contract speaks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.workspace import Workspace
from tests.support.command import COMMAND

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
CONTRACT = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}


def clean_columns(workspace: Workspace, contract: TableContract) -> list[str]:
    clean = Identifier(contract.namespaces.clean, contract.table)
    table = workspace.lake.load(clean)
    if table is not None:
        return [field.name for field in table.schema().fields]
    view = read_view(workspace.lake, clean)
    assert view is not None
    return [field.name for field in view.schema.fields]


def test_new_columns_wait_for_the_contract_and_personal_values_are_said(
    sql: Sql, engine_for: EngineFor
) -> None:
    for name in ("v", "t"):
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, memo TEXT, modified_at DATETIME NOT NULL, "
            "KEY (modified_at))",
            f"INSERT INTO {name} VALUES (1, 'plain', '2020-01-01')",
        )

    def workspace(**columns: dict[str, str]) -> Workspace:
        tables = {"v": CONTRACT | {"columns": columns}}
        return engine_for(tables | {"t": CONTRACT | {"clean": "table", "columns": columns}})

    first = workspace()
    for name in ("v", "t"):
        sync_table(first, first.config.table(name))
        sql(
            f"ALTER TABLE {name} ADD Secret_Note DATE",
            f"INSERT INTO {name} VALUES (2, 'ask ann.smith@example.com', NOW(), '0000-00-00')",
        )
        contract = first.config.table(name)
        sync_table(first, contract)
        # The new column, and the original text of its zero date, are in deduped alone.
        shown = ["id", "memo", "modified_at", "_mirror_original"]
        assert clean_columns(first, contract) == shown
        deduped = first.lake.load(Identifier(contract.namespaces.deduped, name))
        assert deduped is not None
        assert "Secret_Note" in deduped.schema().as_arrow().names

        from mirrorlake.serving.masking_audit import find_exposed
        from mirrorlake.serving.personal_audit import find_suspects
        from mirrorlake.table.columns.new_columns import held_now

        held = held_now(first.ledger, first.lake, contract)
        assert (
            held
            == status_of(first.config, first.ledger, [contract])[0].held_columns
            == ("Secret_Note",)
        )
        assert find_exposed(first.lake, contract, held).found == {}
        seen = find_suspects(first.lake, first.ledger, contract)
        assert seen.found == {"memo": "1 of 2 sampled values hold an e-mail address"}
        # It stays said until somebody decides, though no row came since.
        again = find_suspects(first.lake, first.ledger, contract)
        assert (again.rows, again.found) == (0, seen.found)
        status = status_of(first.config, first.ledger, [contract])[0]
        assert status.suspected_pii == seen.found
        assert "held out of clean: Secret_Note" in status.checks
        assert "may show personal data: memo" in status.checks

    decided = workspace(secret_note={"pii": "show"}, memo={"pii": "drop"})
    for name in ("v", "t"):
        contract = decided.config.table(name)
        fold_table(decided, contract)
        columns = clean_columns(decided, contract)
        # A table keeps its own order: what is added stands at its end.
        added = ["_mirror_original", "Secret_Note"]
        assert columns == ["id", "modified_at", *(reversed(added) if name == "v" else added)]
        status = status_of(decided.config, decided.ledger, [contract])[0]
        assert (status.held_columns, status.suspected_pii) == ((), {})
        assert find_suspects(decided.lake, decided.ledger, contract).found == {}


@pytest.mark.full
def test_the_command_line_warns_and_shows_no_value(sql: Sql, engine_for: EngineFor) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, memo TEXT)",
        "INSERT INTO t VALUES (1, 'ask ann.smith@example.com')",
    )
    workspace = engine_for({"t": {"mode": "full", "key": ["id"], "verify": False}})
    sync_table(workspace, workspace.config.table("t"))
    # A process of its own: the command stops its Spark, which would be the other tests', too.
    command = [*COMMAND, "check", "t"]
    command += ["--config", str(workspace.config.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "memo: 1 of 1 sampled values hold an e-mail address" in done.stdout
    assert "ann.smith" not in done.stdout + done.stderr
