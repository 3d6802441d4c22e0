"""Backups that are taken while rows change, tables are synced and old versions expire: each is
restored beside the original, synced and exact, by the oracle. At the end ledger, catalog and files
of each two that follow one another are mixed in the original's place, and what each error names
heals them. With ledger and catalog on Postgres, whose driver the tests' Spark does not have, raw
alone is loaded, and compared.

``MIRRORLAKE_SOAK_MINUTES=30`` is how long this goes on; by default half a minute.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.backups.make import BackupMade, make_backup
from mirrorlake.backups.restore import restore_backup
from mirrorlake.config import load_config
from mirrorlake.errors import MirrorlakeError
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.workspace import Workspace
from tests.integration.backups.conftest import KEYS
from tests.integration.backups.databases import PARTS, Databases, on_postgres
from tests.integration.projects import Project
from tests.support.postgres import PASSWORD, Postgres, running_postgres

MINUTES = float(os.environ.get("MIRRORLAKE_SOAK_MINUTES", "0.5"))
KEPT = 3
"""Of how many backups the parts are mixed: the newest ones."""
STEPS = re.compile(r"`mirrorlake (ledger rebuild|lake find|refold|restore)`")
pytestmark = [pytest.mark.full, pytest.mark.timeout(1200 + MINUTES * 150)]


@dataclass
class Folded:
    """A project whose tables are synced: raw, deduped, clean."""

    project: Project
    rounds: int = 0

    def bring(self) -> None:
        self.rounds += 1
        config = load_config(self.project.config)
        with Workspace.open(config) as workspace, workspace.spark.own_session():
            for contract in config.tables:
                sync_table(workspace, contract)
                if self.rounds % 3 == 0:
                    maintain_table(workspace, contract, Ages(timedelta(0), timedelta(0)))

    def assert_exact(self) -> None:
        self.project.assert_exact(KEYS)

    def refused(self) -> str:
        """What a sync says of what it could not do; '' where it did all."""
        result = self.project.run("sync", "--json")
        if result.exit_code in (0, 10):
            return ""
        return str(result.exception) if not result.stdout.startswith("{") else result.stdout


@dataclass
class Loaded(Folded):
    """A project of which raw alone is loaded: no Spark is started."""

    def bring(self) -> None:
        self.rounds += 1
        config = load_config(self.project.config)
        contract = config.table("w")
        with Workspace.open(config) as workspace:
            load_table(workspace, contract)
            if self.rounds % 3 == 0:
                recover_table(workspace, contract, timedelta(0))

    def assert_exact(self) -> None:
        raw: list[Any] = self.project.table("w", "raw").scan().to_arrow().to_pylist()
        newest: dict[int, dict[str, Any]] = {}
        for row in raw:
            if row["_mirror_seq"] >= newest.get(row["id"], row)["_mirror_seq"]:
                newest[row["id"]] = row
        with self.project.server.admin(self.project.database) as admin, admin.cursor() as cursor:
            cursor.execute("SELECT id, v, at FROM w")
            there = set(cursor.fetchall())
        assert {(r["id"], r["v"], r["at"]) for r in newest.values()} == there

    def refused(self) -> str:
        try:
            self.bring()
        except MirrorlakeError as error:
            return str(error)
        return ""


class Busy:
    """A project whose rows change, whose tables are synced and whose old versions expire, until it
    is stopped.

    Attributes:
        at_rest: held while rows change.
        syncs: how often all tables were synced; changes: how often rows changed.
    """

    def __init__(self, mirror: Folded, change: Callable[[], None]) -> None:
        self.at_rest = threading.Lock()
        self.syncs = self.changes = 0
        self._mirrored, self._change = mirror, change
        self._stop = threading.Event()
        self._failed: list[BaseException] = []

    def __enter__(self) -> Busy:
        acts = (self._write, self._mirror)
        self._threads = [threading.Thread(target=act, daemon=True) for act in acts]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)

    def check(self) -> None:
        assert not self._failed, self._failed

    def _write(self) -> None:
        try:
            while not self._stop.wait(0.2):
                with self.at_rest:
                    self._change()
                self.changes += 1
        except BaseException as error:  # noqa: BLE001 - raised where the test waits
            self._failed.append(error)

    def _mirror(self) -> None:
        try:
            while not self._stop.is_set():
                self._mirrored.bring()
                self.syncs += 1
        except BaseException as error:  # noqa: BLE001 - raised where the test waits
            self._failed.append(error)


@pytest.fixture(params=["sqlite", "postgres"])
def databases(
    request: pytest.FixtureRequest, project: Project, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Databases]:
    """Where the project's ledger and catalog are."""
    with ExitStack() as running:
        server: Postgres | None = None
        if request.param == "postgres":
            server = running.enter_context(running_postgres())
            monkeypatch.setenv("PG_PASSWORD", PASSWORD)
            on_postgres(project, server, "now")
        yield Databases(project, server)


def test_each_backup_of_a_busy_lake_is_exact(
    project: Project, change: Callable[[], None], databases: Databases, tmp_path: Path
) -> None:
    of = Folded if databases.server is None else Loaded
    of(project).bring()
    until, made = time.monotonic() + MINUTES * 60, list[BackupMade]()
    with Busy(of(project), change) as busy:
        while len(made) < KEPT or time.monotonic() < until:
            made.append(make_backup(load_config(project.config), str(tmp_path / "backups")))
            copy = project.beside(f"copy{len(made)}")
            if databases.server is not None:
                on_postgres(copy, databases.server, "copy")
            restore_backup(load_config(copy.config), made[-1].where)
            with busy.at_rest:
                of(copy).bring()
                of(copy).assert_exact()
            shutil.rmtree(copy.folder)
            busy.check()
    busy.check()
    assert busy.syncs
    moments = [one.one_moment for one in made]
    print(f"{len(made)} backups, {sum(moments)} of one moment; {busy.syncs} syncs of all tables")
    print(f"rows changed {busy.changes} times")
    for older, newer in pairwise(made[-KEPT:]):
        mixed = Mixed(project, of(project), databases, tmp_path / "parts")
        mixed.assert_healed(older, newer, change)


@dataclass
class Mixed:
    """Two backups' parts in the original's place."""

    project: Project
    mirror: Folded
    databases: Databases
    folder: Path

    def assert_healed(
        self, older: BackupMade, newer: BackupMade, change: Callable[[], None]
    ) -> None:
        """Each mixture of the two is exact after the steps that its errors name."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for age, backup in (("older", older), ("newer", newer)):
            self._restore(backup)
            shutil.copytree(self.project.folder, self.folder / age)
            self.databases.keep(age)
        for ages in product(("older", "newer"), repeat=3):
            self._mix(*ages)
            change()
            steps = self._heal(newer)
            self.mirror.assert_exact()
            print(older.where[-16:], ages, steps)

    def _restore(self, backup: BackupMade) -> None:
        for part in PARTS:
            self.databases.put(part, "lost", self.folder)
        shutil.rmtree(self.project.lake, ignore_errors=True)
        self.project.ok("restore", backup.where)

    def _mix(self, ledger: str, catalog: str, files: str) -> None:
        shutil.rmtree(self.project.lake)
        shutil.copytree(self.folder / files / "lake", self.project.lake)
        self.databases.put("ledger", ledger, self.folder)
        self.databases.put("catalog", catalog, self.folder)

    def _heal(self, backup: BackupMade) -> list[str]:
        done: list[str] = []
        while said := self.mirror.refused():
            steps = [step for step in STEPS.findall(said) if step not in done]
            assert steps, f"after {done}: {said}"
            done.append(steps[0])
            if done[-1] == "restore":
                self._restore(backup)
            else:
                # Of raw the same error says that a refold is not what helps.
                code = self.project.run(*done[-1].split()).exit_code
                assert code in (0, 6) or done[-1] == "refold", (done, said)
        return done
