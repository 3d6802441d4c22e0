"""Plans over few rows are interpreted, in the statement that has them, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mirrorlake.destinations.iceberg.spark.session import INTERPRETED_ROWS, LazySpark
from mirrorlake.merge import fold
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace

NAMES = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")


def settings(session: Any) -> list[str]:
    return [session.conf.get(name) for name in NAMES]


def test_a_session_is_as_before_when_the_block_has_ended(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    spark = engine_for({"t": {"mode": "full", "key": ["id"]}}).spark
    before = settings(spark.get())
    with spark.suited_to(INTERPRETED_ROWS) as session:
        assert settings(session) == ["false", "NO_CODEGEN"]
    assert settings(spark.get()) == before
    with spark.suited_to(INTERPRETED_ROWS + 1) as session:
        assert settings(session) == before
    with pytest.raises(ZeroDivisionError), spark.suited_to(1):
        raise ZeroDivisionError
    assert settings(spark.get()) == before


def test_a_merge_counts_the_rows_of_the_layer_too(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small window may meet every file of a large table."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, m DATETIME(6) NOT NULL, KEY (m))",
        "INSERT INTO t SELECT seq, seq, UTC_TIMESTAMP(6) FROM seq_1_to_50",
    )
    workspace = engine_for({"t": {"mode": "incremental", "key": ["id"], "cursor": "m"}})
    contract = workspace.config.table("t")
    honest, told = LazySpark.suited_to, list[int]()

    @contextmanager
    def noted(self: LazySpark, rows: int) -> Iterator[Any]:
        told.append(rows)
        with honest(self, rows) as session:
            yield session

    monkeypatch.setattr(LazySpark, "suited_to", noted)
    sync_table(workspace, contract)
    assert told == []  # the layer is empty: it takes the load's file
    sql("UPDATE t SET v = 0, m = UTC_TIMESTAMP(6) WHERE id = 7")
    sync_table(workspace, contract)
    assert told[0] > 50  # the window's rows, and the layer's 50
    monkeypatch.setattr(fold, "most_rows", lambda _: 20_000_000)
    sql("UPDATE t SET v = 1, m = UTC_TIMESTAMP(6) WHERE id = 7")
    sync_table(workspace, contract)
    assert told[1] > 20_000_000
