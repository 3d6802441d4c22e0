"""The table of all versions outlives what happens to a mirror: a process killed at any of its steps,
a ledger that is lost, columns that the contract freezes.

A run that is killed is a process of its own, and dies by SIGKILL; the ledger is this module's own.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.errors import SchemaError
from mirrorlake.failpoints import OF_VERSIONS
from mirrorlake.ledger import Ledger
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.repairing.restore_ledger import rebuild_tables
from mirrorlake.operations.upkeep.maintain import maintain_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.versions_tables import proven, shown, sync, table_of
from tests.soak.runs import Order, Runner

Sql = Callable[..., Any]
AT = "at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (at)"
CONTRACT: dict[str, Any] = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "versions": "table",
    "overlap": "0s",
}


@dataclass
class Mirror:
    """One table ``t``, and its mirror with a ledger of its own."""

    server: MariaDB
    place: Place
    database: str
    contract: dict[str, Any] = field(default_factory=lambda: dict(CONTRACT))

    @property
    def ledger(self) -> Path:
        return self.place.folder / f"{self.database}.ledger.db"

    def write(self) -> Path:
        return write_contract(
            self.place.folder / f"{self.database}.yaml",
            self.server.port,
            {self.database: {"tables": {"t": self.contract}}},
            ledger={"url": f"sqlite:///{self.ledger.name}", "wait": "1s"},
        )

    def workspace(self) -> Workspace:
        return Workspace.open(load_config(self.write()), spark=self.place.spark)

    def sync(self) -> Workspace:
        workspace = self.workspace()
        sync(workspace)
        return workspace

    def killed(self, runner: Runner, point: str) -> bool:
        """A sync in a process of its own, which is killed at a step if it passes it; whether."""
        run = runner.run(Order(self.write(), f"s.{self.database}.t", failpoint=point))
        assert run.code in (0, -signal.SIGKILL), run.error
        return run.code == -signal.SIGKILL

    def lose_the_ledger(self) -> None:
        for path in self.place.folder.glob(f"{self.ledger.name}*"):
            path.unlink()
        config = load_config(self.write())
        rebuild_tables(config, Ledger(config.ledger.url), config.tables)
        recover_table(self.workspace(), config.tables[0])


@pytest.fixture
def mirror(mariadb: MariaDB, place: Place, database: str, sql: Sql) -> Mirror:
    sql(
        f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT, {AT})",
        "INSERT INTO t (id, n) VALUES (1, 1), (2, 2)",
    )
    return Mirror(mariadb, place, database)


def ids_of(workspace: Workspace) -> list[int]:
    return sorted(table_of(workspace).scan().to_arrow()["id"].to_pylist())


def assert_whole(workspace: Workspace) -> None:
    """It has raw's rows in the view's columns, for every reader, and nothing is left behind."""
    shown(workspace, "id")
    assert proven(workspace).verdict == "equal"
    table = table_of(workspace)
    assert not [name for name in table.schema().column_names if name.startswith("_mirror_next")]
    [contract] = workspace.config.tables
    maintain_table(workspace, contract)
    assert list(table_of(workspace).metadata.refs) == ["main"]


CHANGES = {
    "rows": (),
    "type": ("ALTER TABLE t MODIFY n VARCHAR(20)",),
    "name": ("ALTER TABLE t RENAME COLUMN n TO m",),
    "wider": ("ALTER TABLE t MODIFY n BIGINT, ADD s INT DEFAULT 7",),
}
OFTEN = ("type", "versions.replaced")
STEPS = [
    pytest.param(*one, id="-".join(one), marks=() if one == OFTEN else pytest.mark.full)
    for one in ((change, point) for change in CHANGES for point in OF_VERSIONS)
]


@pytest.mark.full
@pytest.mark.parametrize(("change", "point"), STEPS)
def test_a_process_that_is_killed_leaves_what_the_next_sync_completes(
    mirror: Mirror, sql: Sql, runner: Runner, change: str, point: str
) -> None:
    before = ids_of(mirror.sync())
    sql(*CHANGES[change], "INSERT INTO t (id) VALUES (3)")
    if change == "name":
        mirror.contract["columns"] = {"m": {"pii": "show", "renamed_from": "n"}}
    killed = mirror.killed(runner, point)
    # What is published has no branch of another origin to replace main by.
    assert killed != (point == "versions.replaced" and change in ("rows", "wider"))
    late = point in ("versions.replaced", "versions.shown")
    assert (ids_of(mirror.workspace()) == before) == (killed and not late)
    sql("INSERT INTO t (id) VALUES (4)")
    workspace = mirror.sync()
    assert {3, 4} <= set(ids_of(workspace))
    assert_whole(workspace)


@pytest.mark.full
@pytest.mark.parametrize("point", ["", *OF_VERSIONS])
def test_a_ledger_that_is_lost_takes_nothing_along(
    mirror: Mirror, sql: Sql, runner: Runner, point: str
) -> None:
    """Also of a run that was killed; and what the table shows is found without the definition by
    which it was made, which the ledger alone kept."""
    mirror.sync()
    sql("ALTER TABLE t ADD s VARCHAR(9) DEFAULT 'x'", "INSERT INTO t (id, s) VALUES (3, 'y')")
    mirror.sync()
    sql("ALTER TABLE t DROP s, MODIFY n DECIMAL(12,3)", "INSERT INTO t (id, n) VALUES (4, 0.125)")
    if point:
        assert mirror.killed(runner, point)
    else:
        mirror.sync()
    mirror.lose_the_ledger()
    sql("UPDATE t SET n = 5 WHERE id = 1")
    workspace = mirror.sync()
    rows = shown(workspace, "id", "s")
    assert (3, "y") in rows
    assert {4} <= {id for id, _ in rows}
    assert_whole(workspace)


@pytest.mark.full
def test_a_frozen_column_comes_when_the_contract_lets_it(mirror: Mirror, sql: Sql) -> None:
    mirror.sync()
    mirror.contract["schema_changes"] = "freeze"
    sql("ALTER TABLE t ADD s VARCHAR(9) DEFAULT 'x'", "INSERT INTO t (id, s) VALUES (3, 'y')")
    workspace = mirror.sync()
    assert "s" not in table_of(workspace).schema().column_names
    assert {n for (n,) in shown(workspace, "id")} == {1, 2, 3}
    assert_whole(workspace)
    mirror.contract["schema_changes"] = "evolve"
    workspace = mirror.sync()
    assert {(1, "x"), (3, "y")} <= set(shown(workspace, "id", "s"))
    assert_whole(workspace)
    # A column that goes stops the table, and what it shows stays.
    mirror.contract["schema_changes"] = "freeze"
    rows = shown(workspace, "id", "s")
    sql("ALTER TABLE t DROP s", "INSERT INTO t (id) VALUES (5)")
    with pytest.raises(SchemaError, match="schema_changes"):
        mirror.sync()
    sql("ALTER TABLE t ADD s VARCHAR(9) DEFAULT 'z'")
    assert set(rows) <= set(shown(mirror.sync(), "id", "s"))
