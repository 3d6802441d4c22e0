"""What a sync commits for each table: each commit waits for a disk, and a project has hundreds of
tables. These numbers may only fall."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyiceberg.serializers
import pytest
import sqlalchemy as sa

from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.mirrored import INCREMENTAL

EngineFor = Callable[..., Workspace]
FULL = {"mode": "full", "key": ["id"], "verify": True}
READS = ("SELECT", "PRAGMA", "BEGIN")


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The commits of this thread that wrote to ledger and catalog, and the metadata files that it
    wrote. Leases are renewed by another thread."""
    found: Counter[str] = Counter()
    written: set[int] = set()
    me = threading.get_ident()

    def on_statement(connection: Any, _: Any, statement: str, *__: Any) -> None:
        if threading.get_ident() == me and not statement.lstrip().startswith(READS):
            written.add(id(connection))

    def on_end(connection: Any) -> None:
        if id(connection) in written:
            written.discard(id(connection))
            found["catalog" if "catalog.db" in str(connection.engine.url) else "ledger"] += 1

    write = pyiceberg.serializers.ToOutputFile.table_metadata

    def on_metadata(*given: Any, **named: Any) -> None:
        found["metadata"] += 1
        write(*given, **named)

    listened = {"before_cursor_execute": on_statement, "commit": on_end}
    with monkeypatch.context() as patch:
        patch.setattr(pyiceberg.serializers.ToOutputFile, "table_metadata", on_metadata)
        for name, heard in listened.items():
            sa.event.listen(sa.Engine, name, heard)
        try:
            yield found
        finally:
            for name, heard in listened.items():
                sa.event.remove(sa.Engine, name, heard)


@pytest.mark.parametrize(
    ("contract", "first", "again"),
    [
        (
            FULL,
            {"ledger": 8, "catalog": 5, "metadata": 3},
            {"ledger": 8, "catalog": 2, "metadata": 2},
        ),
        (INCREMENTAL | {"verify": True}, {"ledger": 9, "catalog": 5, "metadata": 3}, None),
    ],
    ids=["full", "incremental"],
)
def test_commits_of_a_sync(
    sql: Callable[..., Any],
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
    contract: dict[str, Any],
    first: dict[str, int],
    again: dict[str, int] | None,
) -> None:
    """Another table of the same namespaces was there before."""
    for name in ("other", "t"):
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, at TIMESTAMP(6) NOT NULL"
            " DEFAULT UTC_TIMESTAMP(6), KEY (at))",
            f"INSERT INTO {name} (id, v) SELECT seq, seq FROM seq_1_to_100",
        )
    workspace = engine_for({"other": contract, "t": contract})
    sync_table(workspace, workspace.config.table("other"))
    with counted(monkeypatch) as found:
        sync_table(workspace, workspace.config.table("t"))
    assert found == first
    if again is not None:
        sql("UPDATE t SET v = 0 WHERE id = 7")
        with counted(monkeypatch) as found:
            sync_table(workspace, workspace.config.table("t"))
        assert found == again
