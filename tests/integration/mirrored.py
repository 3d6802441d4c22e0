"""The mirror of a table called ``t``: its rows, and whether every layer is what MySQL has.

MySQL is read and compared by the oracle, which shares no code with the engine.
"""

from __future__ import annotations

import pyarrow as pa

from demo.embedded import EmbeddedServer
from demo.oracle import compare_table
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.check_layers import prove_clean_layer, prove_raw_layer
from mirrorlake.proof.check import check_table
from mirrorlake.proof.report import Ask
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.workspace import Workspace


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
