"""Few rows are folded into a small layer without Spark: the layer is what a fold by Spark makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from demo.oracle import compare_table
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.merge.test_copied_load import is_copied, layer
from tests.integration.mirrored import INCREMENTAL, assert_equal

EngineFor = Callable[..., Workspace]
LOG = {"mode": "binlog", "key": ["id"]}
CREATE = (
    "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, v VARCHAR(20), d DATE, n DECIMAL(38, 12),"
    " big BIGINT UNSIGNED, b BIT(9), x BLOB, e ENUM('a','b'), f DOUBLE,"
    " at TIMESTAMP(6) NOT NULL DEFAULT UTC_TIMESTAMP(6), KEY (at))",
    "INSERT INTO t (id, v, d, n, big, b, x, e, f) SELECT seq * 3, CONCAT('v', seq), '0000-00-00',"
    " -seq / 7, 18446744073709551615 - seq, seq, CHAR(seq), 'b', -0e0 FROM seq_1_to_400",
)
STEPS = (
    ("UPDATE t SET v = NULL, f = 0e0, at = UTC_TIMESTAMP(6) WHERE id IN (3, 600)",),
    (
        "INSERT INTO t (id, v, d) VALUES (1, 'new', '2026-02-31'), (2, '', NULL)",
        "DELETE FROM t WHERE id = 9",
    ),
    ("UPDATE t SET id = 4000, at = UTC_TIMESTAMP(6) WHERE id = 12",),
    ("DELETE FROM t WHERE id < 100", "INSERT INTO t (id, v) VALUES (50, 'again')"),
)
SEEN = (STEPS[0], STEPS[1][:1])
"""A window sees no row that is gone."""


def sync(workspace: Workspace) -> None:
    """Without Spark."""
    with pytest.MonkeyPatch.context() as without:
        for way in ("get", "start_early"):
            without.setattr(LazySpark, way, lambda _: pytest.fail("Spark was started"))
        sync_table(workspace, workspace.config.table("t"))


@pytest.mark.parametrize(
    "contract",
    [
        pytest.param(LOG, id="log", marks=pytest.mark.full),
        pytest.param(INCREMENTAL, id="incremental"),
    ],
)
def test_no_spark_is_started_for_few_rows(
    sql: Any,
    server: EmbeddedServer,
    database: str,
    engine_for: EngineFor,
    contract: dict[str, Any],
) -> None:
    sql(*CREATE, "SET GLOBAL binlog_row_metadata = FULL")
    workspace = engine_for({"t": contract})
    sync(workspace)
    for statements in STEPS if contract is LOG else SEEN:
        sql(*statements)
        sync(workspace)
        assert_equal(workspace, server, database)
    assert is_copied(workspace)
    files = [task.file for task in layer(workspace, "deduped").scan().plan_files()]
    assert len(files) == 1


COMPOSITE = (
    "CREATE TABLE t (n DECIMAL(30, 4), d VARCHAR(9) COLLATE utf8mb4_bin, m BIGINT, x VARBINARY(8), u BIGINT UNSIGNED,"
    " v VARCHAR(20), f DOUBLE, PRIMARY KEY (n, d, m, x, u))",
)


def _change(random: Random) -> str:
    """A statement over few keys, so that the same ones come again and again."""
    key = (
        f"n = {random.choice((-1.5, 0, 99999999999999999999.0001))}",
        f"d = '{random.choice(('', 'a', 'A', 'ä '))}'",
        f"m = {random.choice((-(2**63), 1))}",
        f"x = {random.choice(('_binary 0x00', '_binary 0x0000', '_binary 0xFF'))}",
        f"u = {random.choice((0, 2**64 - 1))}",
    )
    rest = f"v = '{random.randrange(9)}', f = {random.choice(('0e0', '-0e0', 'NULL'))}"
    return random.choice(
        (
            f"REPLACE INTO t SET {', '.join(key)}, {rest}",
            f"DELETE FROM t WHERE {' AND '.join(key[:2])}",
            f"UPDATE IGNORE t SET {key[4]}, {rest} WHERE {key[0]} AND {key[1]}",
            f"UPDATE t SET {rest} WHERE {key[3]}",
        )
    )


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.full) for n in range(2, 9))]
)
def test_any_changes_of_the_same_keys_leave_what_mysql_has(
    sql: Any, server: EmbeddedServer, database: str, engine_for: EngineFor, seed: int
) -> None:
    random = Random(seed)  # noqa: S311
    sql(*COMPOSITE, "SET GLOBAL binlog_row_metadata = FULL")
    workspace = engine_for({"t": {"mode": "binlog", "key": ["n", "d", "m", "x", "u"]}})
    sync(workspace)
    for _ in range(12):
        sql(*(_change(random) for _ in range(random.randrange(1, 30))))
        sync(workspace)
        with server.admin() as admin:
            found = compare_table(
                admin, database, "t", ["n", "d", "m", "x", "u"], layer(workspace, "deduped")
            )
        assert (found.missing, found.extra, found.changed) == ((), (), ()), found.describe()
    assert_equal(workspace, server, database)


@pytest.mark.parametrize(
    "why",
    [
        "the setting",
        *(
            pytest.param(w, marks=pytest.mark.full)
            for w in ("flags", "deletes beside files", "a key of texts")
        ),
    ],
)
def test_what_is_not_plain_is_folded_by_spark(
    sql: Any, server: EmbeddedServer, database: str, engine_for: EngineFor, why: str
) -> None:
    """And is as right."""
    contract: dict[str, Any] = dict(INCREMENTAL)
    create = CREATE
    if why == "flags":
        contract |= {"deletes": "flag"}
    if why == "a key of texts":
        create = (CREATE[0].replace("id INT UNSIGNED", "id VARCHAR(20)"), CREATE[1])
    sql(*create)
    workspace = engine_for({"t": contract})
    sync_table(workspace, workspace.config.table("t"))
    by_spark = workspace.config.spark.model_copy(update={"folds_from": 0})
    spark_only = replace(workspace, config=workspace.config.model_copy(update={"spark": by_spark}))
    for number, statements in enumerate(SEEN):
        sql(*statements)
        always = why == "the setting" or (why == "deletes beside files" and number == 0)
        one = spark_only if always else workspace
        sync_table(one, one.config.table("t"))
        assert not is_copied(workspace)
        assert_equal(workspace, server, database)
