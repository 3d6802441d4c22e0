"""Backups that are taken while rows change, tables are synced and old versions expire: each is
restored, synced and exact, by the oracle.

``SOAK_MINUTES=30`` is how long this goes on; by default half a minute.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from mirrorlake.backups.make import make_backup
from mirrorlake.backups.restore import restore_backup
from mirrorlake.config import load_config
from mirrorlake.operations.maintain import Ages, maintain_table
from mirrorlake.operations.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.backups.conftest import KEYS
from tests.integration.projects import Project

MINUTES = float(os.environ.get("SOAK_MINUTES", "0.5"))
pytestmark = [pytest.mark.full, pytest.mark.timeout(600 + MINUTES * 120)]


class Busy:
    """A project whose rows change, whose tables are synced and whose old versions expire, until it
    is stopped.

    Attributes:
        at_rest: held while rows change.
        syncs: how often all tables were synced.
    """

    def __init__(self, project: Project, change: Callable[[], None]) -> None:
        self.at_rest = threading.Lock()
        self.syncs = 0
        self._project, self._change = project, change
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
        while not self._stop.wait(0.05):
            with self.at_rest:
                self._change()

    def _mirror(self) -> None:
        config = load_config(self._project.config)
        try:
            while not self._stop.is_set():
                with Workspace.open(config) as workspace, workspace.spark.own_session():
                    for contract in config.tables:
                        sync_table(workspace, contract)
                        if self.syncs % 3 == 2:
                            maintain_table(workspace, contract, Ages(timedelta(0), timedelta(0)))
                self.syncs += 1
        except BaseException as error:  # noqa: BLE001 - raised where the test waits
            self._failed.append(error)


def test_each_backup_of_a_busy_lake_is_exact(
    project: Project, change: Callable[[], None], tmp_path: Path
) -> None:
    project.sync()
    until, number = time.monotonic() + MINUTES * 60, 0
    with Busy(project, change) as busy:
        while number < 3 or time.monotonic() < until:
            number += 1
            made = make_backup(load_config(project.config), str(tmp_path / "backups"))
            copy = project.beside(f"copy{number}")
            restore_backup(load_config(copy.config), made.where)
            with busy.at_rest:
                copy.sync()
                copy.assert_exact(KEYS)
            shutil.rmtree(copy.folder)
            busy.check()
    busy.check()
    assert busy.syncs
