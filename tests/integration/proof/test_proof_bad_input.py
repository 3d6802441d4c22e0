"""Bad input for a check, beside what `test_proof` has: letters that are equal, and too many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing import check, compare
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.proof.ranges import ranges
from mirrorlake.workspace import Workspace
from tests.integration.proof.test_proof import INCREMENTAL, LONG_AGO, checked, mirrored, plant, told

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


def test_other_bytes_that_the_server_calls_one_key(
    database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """'ss' = 'ß' and 'a' = 'Ä': one row that is changed, never a missing and an extra one."""
    sql(
        "CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_unicode_ci PRIMARY KEY, v INT, "
        "modified_at DATETIME NOT NULL, KEY (modified_at))",
        f"INSERT INTO t VALUES ('ß', 1, '{LONG_AGO}'), ('Ä', 2, '{LONG_AGO}'), "
        f"('c', 3, '{LONG_AGO}')",
    )
    workspace = engine_for({"t": {**INCREMENTAL, "key": ["k"]}})
    sync_table(workspace, workspace.config.table("t"))
    assert checked(workspace, "t", Ask("next")).verdict == "equal"
    plant(
        workspace,
        database,
        "UPDATE {t} SET k = 'ss' WHERE k = 'ß'",
        "INSERT INTO {t} SELECT 'a', 9, modified_at, _mirror_original FROM {t} WHERE k = 'Ä'",
    )
    report = checked(workspace, "t", Ask("next"))
    assert told(workspace, "t", report) == [
        "changed (k='ß'): `k` does not match between MySQL (val='ß') and the lake (val='ss')",
        "extra: a second row (k='a'): the lake has this row",
    ]
    assert report.ranges[0].range is None, "only the server orders such keys: one range"


def test_a_chunk_that_is_larger_than_memory(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are digested where they are, and fetched a few at a time where they differ."""
    workspace = mirrored(engine_for, sql, rows=400)
    plant(workspace, database, "UPDATE {t} SET a = 'no' WHERE id IN (50, 390)")

    def refuse(*_: Any) -> Any:
        raise AssertionError("all rows of a chunk were brought here")

    monkeypatch.setattr(check, "SMALL_BYTES", 1)
    monkeypatch.setattr(check, "SMALL_ROW", 1)
    monkeypatch.setattr(check, "digest_locally", refuse)
    monkeypatch.setattr(ranges, "GROUP_ROWS", 10)
    fetched: list[int] = []
    unlike = compare._unlike

    def counted(*args: Any) -> Any:
        fetched.append(sum(compare._rows_of(args[4], group) for group in args[5]))
        return unlike(*args)

    monkeypatch.setattr(compare, "_unlike", counted)
    report = checked(workspace, "t", Ask("next"))
    assert {d.key[0].shown for d in report.differences} == {"50", "390"}
    assert sum(fetched) <= 2 * 10
