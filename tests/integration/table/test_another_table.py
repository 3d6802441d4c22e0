"""Another table under the same name, or a rebuilt one: compared where that may spare a read, read
again where a row differs, and never taken for what it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import TableContract
from mirrorlake.errors import SchemaError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.planning.sync_plans import plan_syncs
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.proof.comparing.evidence import prove_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows

COLUMNS = "id INT PRIMARY KEY, a INT, b INT, m DATETIME(6) NOT NULL, KEY (m)"
PLAIN = f"({COLUMNS})"
PARTED = f"""({COLUMNS.replace("id INT PRIMARY KEY", "id INT NOT NULL, PRIMARY KEY (id)")})
    PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20),
    PARTITION pm VALUES LESS THAN MAXVALUE)"""
TERMS = {"mode": "incremental", "key": ["id"], "cursor": "m"}
OLD = "2026-01-05"
AGAIN = "DROP TABLE t", "RENAME TABLE made TO t"

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


class Mirror:
    """One table and its mirror."""

    def __init__(self, sql: Callable[..., Any], workspace: Workspace) -> None:
        self.sql, self.workspace = sql, workspace
        self.contract: TableContract = workspace.config.tables[0]

    def fill(self, name: str = "t", *, value: int = 1, first: int = 1) -> None:
        rows = ", ".join(f"({n}, {value}, {n}, '{OLD}')" for n in (first, 2, 3, 12, 13))
        self.sql(f"INSERT INTO {name} VALUES {rows}")

    def window(self) -> str:
        return str(sync_table(self.workspace, self.contract).window)

    def rows(self, *names: str) -> Rows:
        rows = lake_rows(self.workspace, self.contract.namespaces.deduped, "t")
        return sorted(tuple(row[name] for name in names or ("id", "a", "b")) for row in rows)

    def planned(self) -> str:
        [plan] = plan_syncs(self.workspace, [self.contract])
        return f"{plan.window}: {plan.why}"

    def status(self) -> str:
        [found] = status_of(self.workspace.config, self.workspace.ledger, [self.contract])
        return found.checks

    def equal(self) -> None:
        assert self.rows() == sorted(self.sql("SELECT id, a, b FROM t"))

    @property
    def begun(self) -> int:
        return self.workspace.ledger.history_start(self.contract.name)


@pytest.fixture
def mirror_of(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> Callable[..., Mirror]:
    """A mirrored table with five old rows; its next second has begun."""

    def make(columns: str = PLAIN, **terms: Any) -> Mirror:
        sql(f"CREATE TABLE t {columns}")
        mirror = Mirror(sql, engine_for({"t": {**TERMS, **terms}}))
        mirror.fill()
        assert mirror.window() == "initial"
        time.sleep(1.1)  # CREATE_TIME has whole seconds
        return mirror

    return make


def cases(every: Mapping[str, tuple[Any, ...]], often: str) -> list[Any]:
    """By name; all but one of them in full runs alone."""
    return [
        pytest.param(*case, id=name, marks=() if name == often else pytest.mark.full)
        for name, case in every.items()
    ]


REBUILDS = {
    "optimize": (PLAIN, ("OPTIMIZE TABLE t",)),
    "engine": (PLAIN, ("ALTER TABLE t ENGINE=InnoDB",)),
    "index by a copy": (PLAIN, ("ALTER TABLE t ADD KEY (a), ALGORITHM=COPY",)),
    "there and back": (PLAIN, ("ALTER TABLE t ADD KEY z (a)", "ALTER TABLE t DROP KEY z")),
    "made again": (PLAIN, ("CREATE TABLE made LIKE t", "INSERT INTO made SELECT * FROM t", *AGAIN)),
    "online copy": (
        PLAIN,
        (
            f"CREATE TABLE made {PLAIN.replace('b INT', 'b INT, KEY z (a)')}",
            "INSERT INTO made SELECT * FROM t",
            "RENAME TABLE t TO old, made TO t",
        ),
    ),
    "partition rebuilt": (PARTED, ("ALTER TABLE t REBUILD PARTITION p1",)),
    "empty partition split": (
        PARTED,
        (
            "ALTER TABLE t REORGANIZE PARTITION pm INTO"
            " (PARTITION p2 VALUES LESS THAN (30), PARTITION pm VALUES LESS THAN MAXVALUE)",
        ),
    ),
}


@pytest.mark.full
@pytest.mark.parametrize(("columns", "statements"), cases(REBUILDS, often="optimize"))
def test_a_table_that_was_only_rebuilt_goes_on(
    mirror_of: Callable[..., Mirror], columns: str, statements: tuple[str, ...]
) -> None:
    mirror = mirror_of(columns)
    begun = mirror.begun
    mirror.sql(*statements, "INSERT INTO t VALUES (20, 1, 1, UTC_TIMESTAMP(6))")
    assert mirror.window() == "live"
    assert mirror.workspace.ledger.newest_mark(mirror.contract.name) is None
    assert mirror.begun == begun
    mirror.equal()
    assert mirror.planned() == "live: "


OTHERS = {
    "made again": (PLAIN, ("CREATE TABLE made LIKE t",), "it was made again or rebuilt"),
    "made again otherwise": (
        PLAIN,
        (f"CREATE TABLE made {PLAIN.replace('b INT', 'b INT, KEY z (a)')}",),
        "made again with another definition",
    ),
    "swapped": (PLAIN, ("CREATE TABLE made LIKE t",), "it was made again or rebuilt"),
}


@pytest.mark.parametrize(("columns", "statements", "words"), cases(OTHERS, often="made again"))
def test_a_table_with_other_rows_is_read_again(
    mirror_of: Callable[..., Mirror], columns: str, statements: tuple[str, ...], words: str
) -> None:
    """Its rows are as old as they were: no window would read them."""
    mirror = mirror_of(columns)
    mirror.sql(*statements)
    mirror.fill("made", value=2)
    mirror.sql("RENAME TABLE t TO old, made TO t")
    assert words in mirror.planned()
    assert "compared with the mirror's first" in mirror.planned()
    assert mirror.window() == "initial"
    assert words in (mirror.workspace.ledger.newest_mark(mirror.contract.name) or ("", ""))[1]
    assert mirror.workspace.ledger.unproved(mirror.contract.name) is None
    mirror.equal()
    assert mirror.window() == "live"


@pytest.mark.full
def test_rows_of_a_table_that_was_made_again_otherwise_are_said(
    mirror_of: Callable[..., Mirror], caplog: pytest.LogCaptureFixture
) -> None:
    """With other columns it may be an ALTER: its history goes on. What MySQL has no more stays
    until a sweep, and does not look current without a word."""
    mirror = mirror_of()
    words = "rows only in the mirror when all of MySQL was read"
    mirror.sql(
        "DROP TABLE t",
        f"CREATE TABLE t {PLAIN.replace('b INT', 'b INT, c INT')}",
        f"INSERT INTO t VALUES (2, 7, 2, 5, '{OLD}'), (40, 7, 40, 5, '{OLD}')",
    )
    assert "made again with another definition, or an ALTER rebuilt it" in mirror.planned()
    assert mirror.window() == "initial"
    assert mirror.rows("id", "c") == [(1, None), (2, 5), (3, None), (12, None), (13, None), (40, 5)]
    assert f"4 {words}" in caplog.text
    assert f"4 {words}" in mirror.status()
    mirror.sql("UPDATE t SET m = NOW(6) WHERE id = 2")
    mirror.window()
    assert f"4 {words}" in mirror.status()
    report, _ = prove_table(mirror.workspace, mirror.contract, Ask())
    assert report.verdict == "different"
    assert f"4 {words}" in mirror.status()
    repair_table(mirror.workspace, mirror.contract, Ask(), only_deletes=True)
    assert [n for (n,) in mirror.rows("id")] == [2, 40]
    prove_table(mirror.workspace, mirror.contract, Ask())
    assert words not in mirror.status()
    # Read as a whole again, with nothing that only the mirror has.
    mirror.sql("ALTER TABLE t ADD d INT DEFAULT 3")
    assert mirror.window() == "initial"
    assert words not in mirror.status()


@pytest.mark.full
def test_a_partition_that_is_exchanged_is_noticed(mirror_of: Callable[..., Mirror]) -> None:
    mirror = mirror_of(PARTED)
    mirror.sql(
        f"CREATE TABLE o {PLAIN}",
        f"INSERT INTO o VALUES (14, 7, 7, '{OLD}'), (12, 8, 8, '{OLD}')",
        "ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE o",
    )
    assert "partition p1 was truncated or exchanged" in mirror.planned()
    assert mirror.window() == "initial"
    mirror.equal()
    # With its own rows back, nothing is to be read but them.
    mirror.sql("ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE o")
    assert mirror.window() == "initial"
    mirror.equal()
    mirror.sql("ALTER TABLE t TRUNCATE PARTITION p1")
    assert mirror.window() == "initial"
    mirror.equal()


@pytest.mark.full
def test_a_partition_that_is_emptied_costs_a_comparison_where_rows_stay(
    mirror_of: Callable[..., Mirror],
) -> None:
    """Tables that drop their oldest rows by partition: what went is kept, and nothing is read."""
    mirror = mirror_of(PARTED, deletes="ignore")
    mirror.sql("ALTER TABLE t TRUNCATE PARTITION p1")
    assert mirror.window() == "live"
    mirror.sql("ALTER TABLE t DROP PARTITION p0")
    assert mirror.planned() == "live: "
    assert mirror.window() == "live"
    assert len(mirror.rows()) == 5


@pytest.mark.full
def test_the_other_table_of_an_exchange_is_noticed(
    mirror_of: Callable[..., Mirror], sql: Callable[..., Any]
) -> None:
    mirror = mirror_of(PLAIN)
    sql(
        "DELETE FROM t WHERE id < 10 OR id = 13",
        f"CREATE TABLE o {PARTED}",
        f"INSERT INTO o VALUES (12, 5, 5, '{OLD}'), (15, 5, 5, '{OLD}')",
        "ALTER TABLE o EXCHANGE PARTITION p1 WITH TABLE t",
    )
    assert "another took its place" in mirror.planned()
    assert mirror.window() == "initial"
    mirror.equal()


@pytest.mark.parametrize("deletes", ["remove", pytest.param("ignore", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "where", ["", *(pytest.param(w, marks=pytest.mark.full) for w in ("AFTER a", "after a sync"))]
)
def test_a_column_dropped_and_added_again_is_another_column(
    mirror_of: Callable[..., Mirror], deletes: str, where: str
) -> None:
    """Its values are MySQL's in every row that MySQL has; a row that only the mirror holds keeps
    what it held, by a fold and by a refold alike."""
    mirror = mirror_of(PLAIN, deletes=deletes)
    mirror.sql(
        "DELETE FROM t WHERE id = 3",
        "ALTER TABLE t DROP COLUMN b",
    )
    if where == "after a sync":
        assert mirror.window() == "initial"
    mirror.sql(f"ALTER TABLE t ADD COLUMN b INT {where if where == 'AFTER a' else ''}")
    assert mirror.window() == "initial"
    mine = [row for row in mirror.rows() if row[0] != 3]
    assert mine == sorted(mirror.sql("SELECT id, a, b FROM t"))
    assert {row[2] for row in mine} == {None}
    folded = mirror.rows()
    kept = [row for row in folded if row[0] == 3]
    assert kept == [(3, 1, 3)] or (deletes == "remove" and not kept)
    refold_table(mirror.workspace, mirror.contract)
    assert mirror.rows() == folded


@pytest.mark.full
def test_what_was_seen_is_said_by_commands(mirror_of: Callable[..., Mirror]) -> None:
    """`plan --sources` before the next sync, `schema` of the newest load."""
    mirror = mirror_of(PARTED)
    config = ["--config", str(mirror.workspace.config.path)]
    said = CliRunner().invoke(cli, ["schema", "t", "--json", *config])
    assert "InnoDB's numbers of 3 partitions" in json.loads(said.output)["identity"]
    mirror.sql("ALTER TABLE t TRUNCATE PARTITION p1")
    said = CliRunner().invoke(cli, ["plan", "--sources", "--json", *config])
    [found] = json.loads(said.output)["schema_versions"]
    assert (said.exit_code, found["change"]) == (10, "changed")
    assert "partition p1 was truncated or exchanged: its rows are compared" in found["words"][0]
    assert mirror.window() == "initial"
    said = CliRunner().invoke(cli, ["plan", "--sources", "--json", *config])
    assert json.loads(said.output)["schema_versions"][0]["change"] == "unchanged"


@pytest.mark.full
def test_a_load_that_was_not_folded_is_no_ground_to_go_on(
    mirror_of: Callable[..., Mirror],
) -> None:
    mirror = mirror_of(PLAIN)
    mirror.sql("UPDATE t SET a = 9, m = UTC_TIMESTAMP(6) WHERE id = 1")
    assert load_table(mirror.workspace, mirror.contract).window == "live"
    mirror.sql("OPTIMIZE TABLE t")
    assert load_table(mirror.workspace, mirror.contract).window == "initial"
    fold_table(mirror.workspace, mirror.contract)
    mirror.equal()


@pytest.mark.full
def test_a_row_within_settle_is_read_after_a_comparison(
    mirror_of: Callable[..., Mirror],
) -> None:
    """The comparison leaves it out, and the usual window would begin behind it."""
    mirror = mirror_of(PLAIN, settle="1h", overlap="1s")
    mirror.sql(
        "CREATE TABLE made LIKE t",
        "INSERT INTO made SELECT * FROM t",
        "INSERT INTO made VALUES (21, 1, 1, UTC_TIMESTAMP(6) - INTERVAL 10 MINUTE)",
        *AGAIN,
    )
    assert mirror.window() == "live"
    mirror.equal()


def test_a_table_that_is_swapped_while_it_is_read_is_refused(
    mirror_of: Callable[..., Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = mirror_of(PLAIN)
    mirror.sql("CREATE TABLE made LIKE t")
    mirror.fill("made", value=4)
    mirror.sql("INSERT INTO t VALUES (22, 1, 1, UTC_TIMESTAMP(6))")

    def swap(passed: str) -> None:
        if passed == "ledger.pending":
            mirror.sql("RENAME TABLE t TO old, made TO t")

    with monkeypatch.context() as patched:
        patched.setattr("mirrorlake.load.protocol.load_run.failpoint", swap)
        with pytest.raises(SchemaError, match="while it was read, it was"):
            mirror.window()
    assert mirror.window() == "initial"
    mirror.equal()


@pytest.mark.full
def test_what_an_older_release_did_not_record_is_not_a_change(
    mirror_of: Callable[..., Mirror], server: EmbeddedServer
) -> None:
    """A receipt without the numbers of partitions: unknown, until the next load records them."""
    mirror = mirror_of(PARTED)
    ledger = mirror.workspace.ledger
    older = "UPDATE loads SET receipt = json_remove(receipt, '$.identity.partitions')"
    with ledger._database.begin() as connection:
        connection.exec_driver_sql(f"{older} WHERE table_name = '{mirror.contract.name}'")
    mirror.sql("ALTER TABLE t TRUNCATE PARTITION p1")
    assert mirror.window() == "live"
    mirror.sql("ALTER TABLE t TRUNCATE PARTITION p1", f"INSERT INTO t VALUES (14, 1, 1, '{OLD}')")
    assert mirror.window() == "initial"
    mirror.equal()
