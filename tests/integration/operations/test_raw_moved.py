"""Raw under other namespaces: what was loaded before stays where it was and is not missed; what is
damaged is named by the check, and by `status --strict` until a check finds it right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.checking.check_layers import prove_raw_layer
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.status.attention import attention_of, read_facts
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FULL = {"mode": "full", "key": ["id"]}


def raw_files(workspace: Workspace) -> list[Path]:
    contract = workspace.config.table("t")
    raw_table = workspace.ledger.schema_versions(contract.name)[-1].raw_table
    table = workspace.lake.load(Identifier(contract.namespaces.raw, raw_table))
    assert table is not None
    return [Path(task.file.file_path.removeprefix("file://")) for task in table.scan().plan_files()]


def differs(workspace: Workspace) -> list[str]:
    contract = workspace.config.table("t")
    found = attention_of(workspace.ledger, contract, read_facts(workspace.ledger))
    return [one.words for one in found if one.kind == "different"]


def test_files_of_other_namespaces_are_not_missed(
    database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    before = engine_for({"t": FULL})
    sync_table(before, before.config.table("t"))
    spaces = {layer: f"{layer}_{database}" for layer in ("raw", "deduped", "clean")}
    after = engine_for({"t": FULL}, None, spaces)
    sync_table(after, after.config.table("t"))
    for workspace in (after, before):
        found = prove_raw_layer(workspace, workspace.config.table("t"))
        assert found.proof.verdict == "equal", found.proof.words
    # A file that is lost in the namespaces of now is missed.
    [file] = raw_files(after)
    kept = file.read_bytes()
    file.unlink()
    assert prove_raw_layer(after, after.config.table("t")).proof.verdict == "different"
    [words] = differs(after)
    assert words.startswith("raw, by its newest check: ")
    file.write_bytes(kept)
    assert prove_raw_layer(after, after.config.table("t")).proof.verdict == "equal"
    assert differs(after) == []
