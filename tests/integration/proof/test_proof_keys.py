"""Ranges of keys as a person names them: both ends in it, in the order of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.proof.ranges.named_ranges import Closed, read_keys
from mirrorlake.workspace import Workspace
from tests.integration.proof.test_proof import LONG_AGO, checked, plant, told

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]

# Per key: its column, its values as MySQL's literals in the server's order, what is asked for, and
# which of them that is.
KEYS: dict[str, tuple[str, list[str], str, slice]] = {
    "texts": (
        # Padded: a control character comes before the end of a text.
        "VARCHAR(12) COLLATE utf8mb4_bin",
        ["''", "'a\\t'", "'a'", "'a b'", "'a..b'", "'b'", "'ä'", "'😀'"],
        'a.."a..b"',
        slice(2, 5),
    ),
    "bytes": (
        "VARBINARY(8)",
        ["''", "x'00'", "x'0000'", "x'7F'", "x'80'", "x'FF'"],
        "0x0000..0x80",
        slice(2, 5),
    ),
    "days": (
        "DATE",
        ["'0000-00-00'", "'2020-00-00'", "'2020-01-30'", "'2020-01-31'", "'2020-02-01'"],
        "2020-00-00..2020-01-31",
        slice(1, 4),
    ),
    "moments": (
        "DATETIME(3)",
        ["'2020-01-01 00:00:00'", "'2020-01-01 00:00:00.5'", "'2020-01-01 00:00:00.501'"],
        "..2020-01-01 00:00:00.5",
        slice(0, 2),
    ),
    "numbers": (
        "DECIMAL(8,2)",
        ["-10.5", "-9.25", "0", "9", "10", "10.01"],
        "-9.25..10",
        slice(1, 5),
    ),
}
FEW = ("texts", "days")


def mirrored(
    kind: str, values: list[str], sql: Sql, engine_for: EngineFor, **more: Any
) -> Workspace:
    rows = ", ".join(f"({value}, {number}, '{LONG_AGO}')" for number, value in enumerate(values))
    sql(
        f"CREATE TABLE t (k {kind} PRIMARY KEY, v INT NOT NULL, modified_at DATETIME NOT NULL, "
        "KEY (modified_at))",
        f"INSERT INTO t VALUES {rows}",
    )
    workspace = engine_for(
        {"t": {"mode": "incremental", "key": ["k"], "cursor": "modified_at"} | more}
    )
    sync_table(workspace, workspace.config.table("t"))
    return workspace


def keys(text: str) -> Ask:
    return Ask("keys", named=read_keys(text))


@pytest.mark.parametrize(
    "name", [n if n in FEW else pytest.param(n, marks=pytest.mark.full) for n in KEYS]
)
def test_a_range_holds_both_its_ends_and_nothing_else(
    name: str, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    kind, values, asked, chosen = KEYS[name]
    workspace = mirrored(kind, values, sql, engine_for)
    inside = list(range(len(values)))[chosen]
    report = checked(workspace, "t", keys(asked))
    assert (report.verdict, report.source.rows) == ("equal", len(inside))
    assert isinstance(report.ask.keys, Closed)
    # Every row is changed, and one is doubled where it is not asked for.
    plant(workspace, database, "UPDATE {t} SET v = v + 100")
    report = checked(workspace, "t", keys(asked))
    lines = told(workspace, "t", report)
    found = [line.partition("MySQL (val=")[2].partition(")")[0] for line in lines]
    assert sorted(map(int, found)) == inside
    [proof] = [
        p for p in workspace.ledger.proofs("s." + database + ".t") if p.verdict == "different"
    ]
    assert proof.hi is not None
    assert proof.hi.endswith(" included")


def test_keys_that_cannot_be_a_range_are_refused(sql: Sql, engine_for: EngineFor) -> None:
    column, general = "VARCHAR(9) COLLATE utf8mb4_bin", "VARCHAR(9) COLLATE utf8mb4_general_ci"
    sql(
        f"CREATE TABLE t (k {column} PRIMARY KEY, w INT NOT NULL, "
        f"modified_at DATETIME NOT NULL, g {general} NOT NULL, UNIQUE (g), UNIQUE (k, w))",
        f"INSERT INTO t VALUES ('a', 1, '{LONG_AGO}', 'A')",
    )
    contract = {"mode": "full"}
    for key, more, why in (
        (["g"], {}, r"only MySQL knows the order of g \(varchar\(9\)\) in utf8mb4_general_ci"),
        (["k", "w"], {}, "it has several columns, and the first, k"),
        (["k"], {"columns": {"k": {"pii": "hash"}}, "clean": "table"}, "would stand in the ledger"),
        ([], {}, "it has none"),
    ):
        workspace = engine_for({"t": {**contract, "key": key, **more}})
        sync_table(workspace, workspace.config.table("t"))
        with pytest.raises(ConfigError, match=why):
            checked(workspace, "t", keys("a..b"))
        assert workspace.ledger.proofs(workspace.config.table("t").name) == []
