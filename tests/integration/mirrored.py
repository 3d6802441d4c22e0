"""The mirror of a table called ``t``: its rows, and whether every layer is what MySQL has.

MySQL is read and compared by the oracle, which shares no code with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from demo.oracle import compare_table
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.checking.check_layers import prove_clean_layer, prove_raw_layer
from mirrorlake.operations.loading.sync import reload_days, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.workspace import Workspace

INCREMENTAL: dict[str, Any] = {"mode": "incremental", "key": ["id"], "cursor": "at"}
MODES: dict[str, dict[str, Any]] = {
    "incremental": INCREMENTAL,
    "append": {"mode": "append", "key": ["id"], "cursor": "at"},
    "full": {"mode": "full", "key": ["id"]},
    "keyless": {"mode": "full", "key": []},
    "flagged": {**INCREMENTAL, "deletes": "flag"},
}
"""Ways to keep a table with the columns ``id`` and ``at``."""


def in_modes(modes: Iterable[str], often: Iterable[str]) -> pytest.MarkDecorator:
    """A test in each of these modes: those that are not ``often`` in the full run alone."""
    chosen = [m if m in often else pytest.param(m, marks=pytest.mark.full) for m in modes]
    return pytest.mark.parametrize("mode", chosen)


def shown(workspace: Workspace, layer: str) -> list[dict[str, Any]]:
    """What Spark shows of a layer's table or view."""
    namespace = getattr(workspace.config.table("t").namespaces, layer)
    return [row.asDict() for row in workspace.spark.get().table(f"lake.{namespace}.t").collect()]


def rows_of(workspace: Workspace, layer: str = "deduped") -> pa.Table:
    contract = workspace.config.table("t")
    table = workspace.lake.load(Identifier(getattr(contract.namespaces, layer), "t"))
    assert table is not None
    return table.scan().to_arrow().sort_by("id")


def assert_equal(workspace: Workspace, server: EmbeddedServer, database: str) -> None:
    contract = workspace.config.table("t")
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    with server.admin() as admin:
        verdict = compare_table(admin, database, "t", contract.key, deduped)
    # The oracle knows nothing of `deletes: flag`: there it sees one column more.
    others = [one for one in verdict.types if one[0] != DELETED_AT]
    rows = (verdict.missing, verdict.extra, verdict.changed)
    assert (*rows, others) == ((), (), (), []), verdict.describe()
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"
    assert prove_raw_layer(workspace, contract).verdict == "equal"
    assert prove_clean_layer(workspace, contract).verdict == "equal"


def assert_goes_on(
    workspace: Workspace,
    server: EmbeddedServer,
    database: str,
    day: date,
    sql: Callable[..., Any],
    *statements: str,
) -> None:
    """See that small windows, reloads, a repair and a rebuild go on over all versions.

    Args:
        day: which is loaded again, where that can be.
        statements: what changes in MySQL before the next window.
    """
    contract = workspace.config.table("t")
    sql(*statements)
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
    if not contract.copies:
        reload_days(workspace, contract, day, day)
        sync_table(workspace, contract)
    if contract.key:
        repair_table(workspace, contract, Ask("full"))
    refold_table(workspace, contract)
    assert_equal(workspace, server, database)
