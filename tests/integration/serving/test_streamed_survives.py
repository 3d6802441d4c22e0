"""A view of current rows outlives what happens to a mirror: whatever dies, and after the ledger was
lost, it shows exactly the rows that MySQL had when the last load that is in raw read it, none of
them twice.

A run that is killed is a process of its own, and dies by SIGKILL; the ledger is this module's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from mirrorlake.failpoints import FAILPOINTS, OF_REFOLDS, OF_STREAMS
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.table.streamed import streamed_of
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.serving.test_streamed_view import TERMS, begin, contract_of, layer_of
from tests.integration.serving.test_versions_survive import Mirror
from tests.soak.runs import Order, Runner

Sql = Callable[..., Any]
Rows = list[tuple[Any, ...]]
AT = "at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (at)"
TEXT = "id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v TEXT"


@dataclass(frozen=True)
class Kind:
    """One way to keep a table ``t (id, v, at)``.

    Attributes:
        change: a round of changes, of which ``{n}`` makes each another one.
        deletes: what only a reload sees.
    """

    columns: str
    terms: dict[str, Any]
    change: tuple[str, ...]
    deletes: tuple[str, ...] = ()
    layer: str = "deduped"


KINDS = {
    "number": Kind(
        "id INT PRIMARY KEY, v TEXT",
        TERMS,
        (
            "INSERT INTO t (id, v) VALUES ({n}, 'new'), (1000 + {n}, 'new')",
            "UPDATE t SET v = 'v{n}' WHERE id = 1",
        ),
        layer="clean",
    ),
    "flagged text": Kind(
        TEXT,
        {**TERMS, "deletes": "flag"},
        (
            "INSERT INTO t (id, v) VALUES ('k{n}', 'new')",
            "UPDATE t SET id = IF(id = BINARY 'a', 'A', 'a'), v = 'v{n}' WHERE id = 'a'",
        ),
        ("DELETE FROM t WHERE id <> 'a' ORDER BY id LIMIT 1",),
    ),
    "text": Kind(
        TEXT,
        TERMS,
        (
            "INSERT INTO t (id, v) VALUES ('k{n}', 'new')",
            "UPDATE t SET id = IF(id = BINARY 'a', 'A', 'a'), v = 'v{n}' WHERE id = 'a'",
        ),
        ("DELETE FROM t WHERE id <> 'a' ORDER BY id LIMIT 1",),
    ),
    "keyless": Kind(
        "id INT, v TEXT",
        {**TERMS, "mode": "append", "key": []},
        ("INSERT INTO t (id, v) VALUES (1, 'same'), (1, 'same'), ({n}, 'new')",),
    ),
}
PROVED = ("branch.", "commit.staged", "commit.proved")
"""Passed by loads that are proved before they are visible: those of a whole table, by none here."""
STEPS = [*FAILPOINTS, *OF_STREAMS]
VISIBLE = [*STEPS[STEPS.index("commit.after") : STEPS.index("stream.held")], "stream.kept"]
"""A run that dies here has its load in raw."""


@dataclass
class Streamed:
    """A table, its mirror, and what its view is to show."""

    mirror: Mirror
    kind: Kind
    sql: Sql
    number: int = 1
    added: list[str] = field(default_factory=list[str])

    def begin(self) -> None:
        first = "'a'" if "VARCHAR" in self.kind.columns else "1"
        self.sql(
            f"CREATE TABLE t ({self.kind.columns}, {AT})",
            f"INSERT INTO t (id, v) VALUES ({first}, 'old')",
        )
        begin(self.mirror.workspace(), self.kind.layer)

    def change(self, *, other_meaning: bool = False, deletes: bool = False) -> None:
        self.number += 1
        if other_meaning:
            self.sql(f"ALTER TABLE t ADD c{self.number} INT NOT NULL DEFAULT {self.number}")
        self.sql(*(text.format(n=self.number) for text in self.kind.change))
        if deletes:
            self.sql(*self.kind.deletes)

    def mysql(self) -> Rows:
        return sorted((tuple(row) for row in self.sql("SELECT id, v FROM t")), key=str)

    def shown(self, workspace: Workspace | None = None) -> Rows:
        """The rows of the view; without those that are flagged as deleted."""
        workspace = workspace or self.mirror.workspace()
        view = streamed_of(layer_of(workspace, self.kind.layer))
        return self._alive(workspace, view.sql)

    def folded(self) -> Rows:
        workspace = self.mirror.workspace()
        return self._alive(workspace, layer_of(workspace, self.kind.layer).sql)

    def _alive(self, workspace: Workspace, name: str) -> Rows:
        spark = workspace.spark.get()
        spark.catalog.clearCache()
        rows = spark.table(name)
        if DELETED_AT in rows.columns:
            rows = rows.where(f"{DELETED_AT} IS NULL")
        return sorted((tuple(row) for row in rows.select("id", "v").collect()), key=str)

    def killed(self, runner: Runner, point: str) -> bool:
        """A run that is killed at a step, if it passes it; whether."""
        today = str(datetime.now(UTC).date())
        reloads = point == "reload.looked_up"
        table = f"s.{self.mirror.database}.t"
        order = Order(self.mirror.write(), table, failpoint=point)
        if reloads:
            order = Order(self.mirror.write(), table, "reload", (today, today), point)
        run = runner.run(order)
        assert run.code in (0, -9), run.error
        return run.code == -9

    def sync(self) -> None:
        workspace = self.mirror.workspace()
        if self.kind.deletes:
            today = datetime.now(UTC).date()
            reload_days(workspace, contract_of(workspace), today, today)
        sync_table(workspace, contract_of(workspace))

    def assert_exact(self) -> None:
        assert self.shown() == self.mysql()
        assert self.folded() == self.mysql()


@pytest.fixture
def streamed(mariadb: MariaDB, place: Place, database: str, sql: Sql) -> Callable[..., Streamed]:
    def make(kind: str) -> Streamed:
        terms = dict(KINDS[kind].terms)
        made = Streamed(Mirror(mariadb, place, database, terms), KINDS[kind], sql)
        made.begin()
        return made

    return make


def survive(made: Streamed, runner: Runner, points: list[str], **change: bool) -> set[str]:
    """Kill a run at each of these steps, one after another; those that were passed."""
    passed: set[str] = set()
    for point in points:
        before = made.mysql()
        assert made.shown() == before, point
        made.change(**change)
        if made.killed(runner, point):
            passed.add(point)
            seen = before if point not in VISIBLE else made.mysql()
            if change.get("other_meaning") and point not in ("clean.committed", "stream.kept"):
                seen = before  # until that load is folded
            assert made.shown() == seen, point
        made.sync()
        made.assert_exact()
    return passed


@pytest.mark.full
def test_a_run_that_is_killed_leaves_the_rows_of_its_last_load(
    streamed: Callable[..., Streamed], runner: Runner
) -> None:
    survive(streamed("number"), runner, ["commit.after"])


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_killed_at_any_step(
    streamed: Callable[..., Streamed], runner: Runner, kind: str
) -> None:
    points = [one for one in STEPS if not one.startswith(("chunks.", "stream.held", *PROVED))]
    made = streamed(kind)
    if not made.kind.deletes:
        points.remove("reload.looked_up")
    passed = survive(made, runner, points, deletes=bool(made.kind.deletes))
    assert passed == set(points)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_with_other_columns_that_is_killed_at_any_step(
    streamed: Callable[..., Streamed], runner: Runner, kind: str
) -> None:
    points = [one for one in STEPS if not one.startswith(("chunks.", "reload.", *PROVED))]
    made = streamed(kind)
    assert survive(made, runner, points, other_meaning=True) == set(points)


@pytest.mark.full
@pytest.mark.parametrize("point", ["", "chunk.written", "commit.after", "fold.committed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_that_is_lost_takes_nothing_along(
    streamed: Callable[..., Streamed], runner: Runner, kind: str, point: str
) -> None:
    made = streamed(kind)
    made.change()
    made.sync()
    before = made.mysql()
    made.change()
    killed = bool(point) and made.killed(runner, point)
    if not point:
        load_table(made.mirror.workspace(), contract_of(made.mirror.workspace()))
    seen = made.mysql() if not killed or point in VISIBLE else before
    assert made.shown() == seen
    made.mirror.lose_the_ledger()
    assert made.shown() == seen
    # A load that comes before anything is folded is added to what the view showed.
    made.change()
    workspace = made.mirror.workspace()
    load_table(workspace, contract_of(workspace))
    assert made.shown() == made.mysql()
    fold_table(workspace, contract_of(workspace))
    made.assert_exact()
    made.change(deletes=True)
    made.sync()
    made.assert_exact()


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_a_refold_that_dies_hides_nothing(
    streamed: Callable[..., Streamed], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = streamed(kind)
    for point in OF_REFOLDS:
        made.change()
        workspace = made.mirror.workspace()
        contract = contract_of(workspace)
        load_table(workspace, contract)
        with monkeypatch.context() as patch:
            for module in ("mirrorlake.merge.overwrite", "mirrorlake.operations.repairing.refold"):
                patch.setattr(f"{module}.failpoint", dies_at(point), raising=False)
            try:
                refold_table(workspace, contract)
            except Died:
                assert made.shown() == made.mysql(), point
        recover_table(made.mirror.workspace(), contract)
        assert made.shown() == made.mysql(), point
        made.sync()
        made.assert_exact()


class Died(BaseException):
    """As a kill: nothing that is ours catches it."""


def dies_at(point: str) -> Callable[[str], None]:
    def failpoint(name: str) -> None:
        if name == point:
            raise Died

    return failpoint
