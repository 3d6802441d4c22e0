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

from mirrorlake.config import load_config
from mirrorlake.operations.backups.make import make_backup
from mirrorlake.operations.backups.restore import restore_backup
from mirrorlake.operations.maintain import Ages, maintain_table
from mirrorlake.operations.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.operations.backups.conftest import KEYS
from tests.integration.projects import Project

MINUTES = float(os.environ.get("SOAK_MINUTES", "0.5"))
pytestmark = [pytest.mark.full, pytest.mark.timeout(600 + MINUTES * 120)]


def test_each_backup_of_a_busy_lake_is_exact(
    project: Project, change: Callable[[], None], tmp_path: Path
) -> None:
    project.sync()
    stop, at_rest = threading.Event(), threading.Lock()
    syncs: list[int] = []
    failed: list[BaseException] = []

    def write() -> None:
        while not stop.wait(0.05):
            with at_rest:
                change()

    def mirror() -> None:
        config = load_config(project.config)
        try:
            while not stop.is_set():
                with Workspace.open(config) as workspace, workspace.spark.own_session():
                    for contract in config.tables:
                        sync_table(workspace, contract)
                        if len(syncs) % 3 == 2:
                            ages = Ages(timedelta(0), timedelta(0))
                            maintain_table(workspace, contract, ages)
                syncs.append(1)
        except BaseException as error:  # noqa: BLE001 - raised where the test waits
            failed.append(error)

    threads = [threading.Thread(target=act, daemon=True) for act in (write, mirror)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + MINUTES * 60
    number = 0
    try:
        while number < 3 or time.monotonic() < until:
            number += 1
            made = make_backup(load_config(project.config), str(tmp_path / "backups"))
            copy = project.beside(f"copy{number}")
            restore_backup(load_config(copy.config), made.where)
            with at_rest:
                copy.sync()
                copy.assert_exact(KEYS)
            shutil.rmtree(copy.folder)
            assert not failed, failed
    finally:
        stop.set()
        for thread in threads:
            thread.join(120)
    assert not failed, failed
    assert syncs
