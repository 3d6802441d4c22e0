"""A backup's manifest is read as it was written, or refused by one clear error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.backups.manifest import (
    FILE,
    FORMAT,
    BackupManifest,
    SavedFile,
    read_manifest,
    refuse_other_project,
)
from mirrorlake.backups.project_parts import refuse_nested
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.catalog.entries import CatalogEntry
from mirrorlake.destinations.iceberg.storage.file_store import FileStore
from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.ledger.database.migrations import LEDGER_VERSION

MOMENT = datetime(2026, 11, 28, 12, tzinfo=UTC)
MANIFEST = BackupManifest(
    release="1.0",
    ledger_version=LEDGER_VERSION,
    begun=MOMENT,
    ended=MOMENT,
    one_moment=True,
    lake="ab",
    warehouse="file:///srv/lake",
    spelled=("file:///srv/lake",),
    tables=("s.db.t",),
    ledger="00",
    catalog=(CatalogEntry("n", "t", "TABLE", "file:///srv/lake/n/t/metadata/1.metadata.json"),),
    files=(SavedFile("n/t/data/ä b.parquet", 7, "ff"),),
)


def store_in(folder: Path) -> FileStore:
    return FileStore(LakeConfig(), str(folder))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.write(FILE, MANIFEST.to_json())
    assert read_manifest(store) == MANIFEST


def changed(**values: Any) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps({**json.loads(content), **values}).encode()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (changed(mirrorlake_backup=FORMAT + 1), "by Mirrorlake 1.0, which is newer"),
        (changed(ledger_version=LEDGER_VERSION + 1), "by Mirrorlake 1.0, which is newer"),
        (changed(lake="cd"), "was changed or cut"),
        (lambda content: content[:-9], "manifest.json can't be read"),
        (lambda _: b"[]", "manifest.json can't be read"),
    ],
)
def test_one_that_is_damaged_or_newer_is_refused(
    harm: Callable[[bytes], bytes], words: str, tmp_path: Path
) -> None:
    store = store_in(tmp_path)
    store.write(FILE, harm(MANIFEST.to_json()))
    with pytest.raises(LakeError, match=words):
        read_manifest(store)


def test_a_backup_without_one_is_not_complete(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"no complete backup.*written last"):
        read_manifest(store_in(tmp_path))


def test_another_projects_is_refused(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    refuse_other_project(store, MANIFEST, {"s.db.t", "s.db.new"})
    refuse_other_project(store, replace(MANIFEST, tables=()), {"x.y.z"})
    with pytest.raises(LakeError, match=r"of another project: it holds s\.db\.t"):
        refuse_other_project(store, MANIFEST, {"x.y.z"})


@pytest.mark.parametrize("other", ["lake", "lake/in", "."])
def test_a_backup_in_the_lake_is_refused(other: str, tmp_path: Path) -> None:
    lake = store_in(tmp_path / "lake")
    with pytest.raises(ConfigError, match="needs a place of its own"):
        refuse_nested(lake, store_in(tmp_path / other), "a backup")
    refuse_nested(lake, store_in(tmp_path / "lake2"), "a backup")
