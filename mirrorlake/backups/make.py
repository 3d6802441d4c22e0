"""A backup: ledger, catalog and the lake's files, of one moment, while syncs go on.

The moment is the ledger's, at which the catalog named the same before and after it was copied: what
a run that died at that moment would leave, which the next sync settles. The files that the catalog
named then never change; if upkeep removed one before it was copied, a later moment is taken.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import mirrorlake
from mirrorlake.backups import manifest as saved
from mirrorlake.backups.manifest import BackupManifest, SavedFile
from mirrorlake.backups.project_parts import (
    OnStep,
    refuse_lent,
    refuse_nested,
    spellings,
    table_names,
)
from mirrorlake.config import Config
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.catalog.entries import (
    CatalogEntry,
    is_server,
    read_entries,
    refuse_unreadable,
)
from mirrorlake.destinations.iceberg.commits.removed_files import is_set_aside
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.storage.file_store import FileStore, StoredFile
from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
from mirrorlake.destinations.iceberg.warehouse.lake_location import FILE as IDENTITY
from mirrorlake.destinations.iceberg.warehouse.lake_location import place_of, real_place
from mirrorlake.destinations.iceberg.warehouse.lake_paths import LakePaths, Places
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.copies import copy_ledger
from mirrorlake.ledger.database.migrations import LEDGER_VERSION
from mirrorlake.operations.other_writers.moved_lake import find_all_moved, recorded_tables
from mirrorlake.operations.repairing.find_tables import lake_namespaces

logger = logging.getLogger(__name__)

_MOMENTS = 5
"""How often a moment is taken again because upkeep removed a file of the last one."""
_LOOKS, _PAUSE = 20, 0.25
"""How often, and with which pause in seconds, ledger and catalog are tried to be met at rest."""
_CATALOG = "catalog.db"


@dataclass(frozen=True)
class BackupMade:
    """A backup that is complete.

    Attributes:
        lake: the lake's id.
        begun: the moment (UTC) of ledger and catalog.
        seconds: how long it took.
        where: its folder.
        files, bytes: of the lake; linked: how many of the files took no room of their own.
        tables: lake tables and views; others: what the catalog names that is not in this lake.
        one_moment: whether ledger and catalog are of one moment; else the ledger is the older of
            the two, by less than a second a try.
        moved: lake tables that were not as our last commits left them when it began, each in a
            sentence: a restore brings back both as they are.
    """

    where: str
    lake: str
    begun: datetime
    seconds: float
    tables: int
    files: int
    bytes: int
    linked: int
    others: int
    one_moment: bool
    moved: tuple[str, ...] = ()


def make_backup(config: Config, target: str, on_progress: OnStep | None = None) -> BackupMade:
    """Back up the ledger, the catalog and the lake into a new folder below ``target``.

    Raises:
        ConfigError: ``target`` is in the lake, or the lake in it.
        LakeError: the lake can't be read, or is not the one that the ledger knows.
        LedgerError: the ledger can't be read.
    """
    started = time.monotonic()
    refuse_lent(config.lake, "a backup")
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    lake = open_lake(config, ledger)
    refuse_unreadable(lake, "a backup")
    moved = find_all_moved(config, ledger, recorded_tables(config, ledger))
    store, above = FileStore(config.lake), FileStore(config.lake, target)
    refuse_nested(store, above, "a backup")
    lake_id = (ledger.lake() or ("",))[0]
    older = _newest(config.lake, above, lake_id)
    into = FileStore(config.lake, f"{above.root}/{_name(above)}")
    with tempfile.TemporaryDirectory(prefix="mirrorlake-") as scratch:
        for _ in range(_MOMENTS):
            begun = datetime.now(UTC)
            cut = _take_moment(config, ledger, lake, Path(scratch) / saved.LEDGER)
            making = _Making(config, store, into, older, cut, on_progress)
            if into.folder is not None:  # where that can't be, no file of the lake's is missing
                into.folder.mkdir(parents=True, exist_ok=True)
            try:
                files = making.copy(begun)
            except FileNotFoundError as error:
                logger.info("backup: %s went while it was copied; a later moment is taken", error)
                continue
            into.write(saved.LEDGER, cut.ledger.read_bytes())
            made = _manifest(config, lake_id, cut, files, begun)
            failpoint("backup.copied")
            into.write(saved.FILE, made.to_json())
            return BackupMade(
                *(into.root, made.lake, begun, round(time.monotonic() - started, 3)),
                *(len(cut.entries), len(files), made.bytes, making.linked, cut.others),
                one_moment=cut.one_moment,
                moved=tuple(f"table {n}: {one.said}" for n, of in moved.items() for one in of),
            )
    raise LakeError(
        f"the lake's files were removed faster than they were copied, {_MOMENTS} times",
        next_step="Run it again when `mirrorlake maintain` does not run; what was copied is of no "
        f"use: remove {into.root}",
        retryable=True,
    )


@dataclass(frozen=True)
class _Cut:
    """Ledger and catalog of one moment."""

    ledger: Path
    entries: list[CatalogEntry]
    others: int
    one_moment: bool
    spelled: tuple[str, ...]


def _spelled(config: LakeConfig, lake: Lake, entries: list[CatalogEntry]) -> tuple[str, ...]:
    """The lake's place, however its files name it: the warehouse may have been a link once."""
    here = place_of(config)
    own = [one for one in spellings(here, entries) if real_place(one) == here]
    return tuple(dict.fromkeys((lake.warehouse, here, *own)))


def _take_moment(config: Config, ledger: Ledger, lake: Lake, to: Path) -> _Cut:
    # Before the ledger: what it names is there then, and what comes later is not of this moment.
    # A metadata file has a name of its own for ever, so a table that has the same one before and
    # after had it meanwhile, whether the catalog was read at once or table by table.
    after = read_entries(lake, lake_namespaces(config, ledger))
    at_rest = False
    for look in range(_LOOKS):
        time.sleep(_PAUSE if look else 0)
        before = after
        copy_ledger(config.ledger.url, config.ledger.wait, to)
        after = read_entries(lake, lake_namespaces(config, ledger))
        at_rest = before == after
        if at_rest:
            break
    if not at_rest and is_server(lake):
        raise LakeError(
            f"the lake was never at rest in {_LOOKS} looks, and its catalog, a REST server, can be "
            "read table by table alone: a layer may be newer than what it was made of",
            next_step="Run it again, when fewer syncs run; nothing was written",
            retryable=True,
        )
    spelled = _spelled(config.lake, lake, after)
    places = Places.of(spelled, lake.warehouse)
    ours = [entry for entry in after if places.relative(entry.metadata) is not None]
    return _Cut(to, ours, len(after) - len(ours), at_rest, spelled)


def _manifest(
    config: Config, lake: str, cut: _Cut, files: list[SavedFile], begun: datetime
) -> BackupManifest:
    return BackupManifest(
        release=mirrorlake.__version__,
        ledger_version=LEDGER_VERSION,
        begun=begun,
        ended=datetime.now(UTC),
        one_moment=cut.one_moment,
        lake=lake,
        warehouse=place_of(config.lake),
        spelled=cut.spelled,
        tables=tuple(sorted(table_names(config))),
        ledger=hashlib.sha256(cut.ledger.read_bytes()).hexdigest(),
        catalog=tuple(cut.entries),
        files=tuple(files),
    )


@dataclass
class _Making:
    """One try at one moment's files."""

    config: Config
    store: FileStore
    into: FileStore
    older: tuple[FileStore, dict[str, SavedFile]] | None
    cut: _Cut
    on_progress: OnStep | None
    linked: int = 0

    def copy(self, begun: datetime) -> list[SavedFile]:
        """Copy what the catalog's tables reach, and what was beside it before the moment.

        Raises:
            FileNotFoundError: a file is gone that the moment needs.
        """
        places = Places.of(self.cut.spelled, self.store.root)
        reached = list(LakePaths(self.store, places).reached(self.cut.entries))
        needed = set(reached)
        beside = [
            name
            for name, file in self.store.list().items()
            if name not in needed and _is_kept(self.config, name, file, begun)
        ]
        names = [*reached, *beside]
        files: list[SavedFile] = []
        for number, name in enumerate(names):
            try:
                files.append(self._copy(name, fixed=name in needed))
            except FileNotFoundError:
                if name in needed:
                    raise
            if self.on_progress is not None:
                self.on_progress("files", number + 1, len(names))
        self.into.flush(f"{saved.LAKE}/{file.name}" for file in files)
        return files

    def _copy(self, name: str, *, fixed: bool) -> SavedFile:
        to = f"{saved.LAKE}/{name}"
        known = self.older[1].get(name) if self.older and fixed else None
        size = self.store.size(name)
        if size is None:
            raise FileNotFoundError(name)
        known = known if known is not None and known.bytes == size else None
        if known is not None and self.older is not None and not self.into.is_on_disk_of(self.store):
            linked = self.into.take(self.older[0], to, link=True)
        else:
            linked = self.into.take(self.store, name, to, link=fixed)
        self.linked += linked
        size = self.into.size(to) if not fixed else size
        if known is not None:
            return known
        unread = self.into.folder is None and self.store.folder is None
        return SavedFile(name, size or 0, "" if unread else self.into.digest(to))


def _is_kept(config: Config, name: str, file: StoredFile, begun: datetime) -> bool:
    """Whether a file goes along that no table reaches: chunks of a load that can be resumed, row
    indexes, states. Not what is written now: newer metadata would contradict the catalog."""
    base = name.rpartition("/")[2]
    if "/" not in name and (base == IDENTITY or base.startswith((_CATALOG, "."))):
        return False
    if base.endswith(".crc") or file.written > begun or is_set_aside(name):
        return False
    url = config.ledger.url
    ledger = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:") else None
    folder = real_place(place_of(config.lake)).removeprefix("file://")
    return ledger is None or not str(Path(folder) / name).startswith(str(ledger))


def _newest(
    config: LakeConfig, above: FileStore, lake: str
) -> tuple[FileStore, dict[str, SavedFile]] | None:
    """The newest complete backup of this lake beside the new one, where links can be made. A lake
    that was moved since has other paths in files of the same names, and often the same sizes."""
    if above.folder is None:
        return None
    for path in sorted(above.folder.glob(f"*/{saved.FILE}"), reverse=True):
        store = FileStore(config, str(path.parent))
        try:
            found = saved.read_manifest(store)
        except LakeError:
            continue
        if found.lake == lake and found.warehouse == place_of(config):
            return store, {file.name: file for file in found.files}
    return None


def _name(above: FileStore) -> str:
    """The folder of a backup: by when it was begun."""
    begun = datetime.now(UTC)
    while True:
        name = f"{begun:%Y%m%dT%H%M%SZ}"
        if not above.list(name):
            return name
        begun += timedelta(seconds=1)
