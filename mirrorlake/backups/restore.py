"""A backup put back: files, then catalog, then ledger, so that what is not whole is not a lake yet.

The lake says from the first step that it is not whole, and the ledger comes last: a restore that
dies is run again, and goes on. At another place than the one that was backed up the paths are
written for it, and the lake gets an id of its own: the original may still live.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

import sqlalchemy as sa

from mirrorlake.backups import manifest as saved
from mirrorlake.backups.manifest import BackupManifest
from mirrorlake.backups.project_parts import OnStep, refuse_lent, refuse_nested, table_names
from mirrorlake.config import Config
from mirrorlake.config.fields import hide_url
from mirrorlake.destinations.iceberg.catalog.entries import (
    name_elsewhere,
    served_names,
    write_entries,
)
from mirrorlake.destinations.iceberg.catalog.locations import metadata_locations
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.storage.durable import flush_files
from mirrorlake.destinations.iceberg.storage.file_store import FileStore
from mirrorlake.destinations.iceberg.warehouse.identity import (
    LakeIdentity,
    identity_in,
    open_lake,
    write_identity,
)
from mirrorlake.destinations.iceberg.warehouse.lake_location import place_of
from mirrorlake.destinations.iceberg.warehouse.lake_paths import LakePaths, Places
from mirrorlake.errors import LakeError, LedgerError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.copies import restore_rows
from mirrorlake.operations.repairing.find_tables import forget_lost_views
from mirrorlake.operations.repairing.restore_ledger import rebuild_table
from mirrorlake.runtime.replaced_file import file_of

logger = logging.getLogger(__name__)

_LEFT_OUT, _A_SECOND = 1_000, 100
"""Numbers of loads that are left out: so many, and so many for each second since the backup."""

_BESIDE = ("-journal", "-wal", "-shm")
"""What SQLite keeps beside a database, by how the names end, and applies to whatever is there."""


@dataclass(frozen=True)
class Restored:
    """A lake that was put back.

    Attributes:
        backup: the backup's folder.
        begun: its moment.
        warehouse: where the lake is now.
        lake: its id.
        tables: how many lake tables and views it has.
        files: how many files.
        bytes: their size.
        moved: whether it is at another place than the one that was backed up.
        found: loads that its ledger did not know yet, and does now.
    """

    backup: str
    begun: datetime
    warehouse: str
    lake: str
    tables: int
    files: int
    bytes: int
    moved: bool
    found: int


def restore_backup(config: Config, backup: str, on_progress: OnStep | None = None) -> Restored:
    """Put a backup back to where the contract file says that lake, catalog and ledger are.

    Raises:
        LakeError: the backup is not complete, damaged, another project's or a newer release's; or
            lake or catalog are not empty. Nothing was changed.
        LeaseHeld, LedgerError: the ledger is in use, or not empty. Nothing was changed.
        ConfigError: backup and lake are one folder.
    """
    tell = on_progress or (lambda *_: None)
    refuse_lent(config.lake, "a restore")
    store, lake_files = FileStore(config.lake, backup), FileStore(config.lake)
    refuse_nested(lake_files, store, "a backup")
    found = saved.read_manifest(store)
    saved.refuse_other_project(store, found, frozenset(table_names(config)))
    identity = _begin(config, store, found, lake_files)
    _compare(store, found, tell)
    write_identity(lake_files, identity)
    failpoint("restore.begun")
    _copy(store, found, lake_files, tell)
    failpoint("restore.copied")
    places = Places.of(found.spelled, lake_files.root)
    moved = lake_files.root not in found.spelled
    if moved:
        paths = LakePaths(lake_files, places)
        for number, entry in enumerate(found.catalog):
            paths.rewrite(entry)
            tell("paths", number + 1, len(found.catalog))
    failpoint("restore.rewritten")
    lake = Lake(config.lake)
    write_entries(lake, name_elsewhere(found.catalog, places.moved))
    failpoint("restore.catalog")
    _put_ledger(config, store, lake, identity.lake, places)
    failpoint("restore.ledger")
    _count_on(config, found)
    catalog = hide_url(lake.catalog_uri())
    write_identity(lake_files, LakeIdentity(identity.lake, catalog, restored=_which(found)))
    return Restored(
        *(store.root, found.begun, place_of(config.lake), identity.lake),
        *(len(found.catalog), len(found.files), found.bytes),
        moved=moved,
        found=0 if found.one_moment else _find_loads(config),
    )


def _begin(
    config: Config, store: FileStore, found: BackupManifest, lake_files: FileStore
) -> LakeIdentity:
    """What the lake says of itself until it is whole. Refuses what is there already, unless it is
    what this restore left when it was interrupted."""
    words = f"`mirrorlake restore {quote(store.root)}`"
    there = identity_in(lake_files)
    if there is not None and there.restored == _which(found):
        raise LakeError(
            f"the backup {store.root} is restored already: it is the lake in {lake_files.root}",
            next_step="`mirrorlake sync` goes on from it; to restore it once more, move away this "
            "lake, its catalog and its ledger first; nothing was changed",
        )
    resumed = there is not None and there.unfinished == words
    _refuse_ledger(config, found, there if resumed else None)
    if resumed and there is not None:
        return there
    if there is not None and there.lake != found.lake:
        raise LakeError(
            f"the lake in {lake_files.root} is another one than the backup's: it is {there.lake}, "
            f"and the backup {store.root} is of {found.lake}",
            next_step="Name this project's backup, or an empty place (lake.warehouse); nothing was "
            "changed",
        )
    some = next(iter(lake_files.list()), None)
    if some is not None:
        raise LakeError(
            f"the lake's place {lake_files.root} is not empty: it has {some}",
            next_step="Move away what is there, or name an empty place (lake.warehouse); nothing "
            "was changed",
        )
    _refuse_catalog(config, found)
    same = place_of(config.lake) == found.warehouse
    return LakeIdentity(found.lake if same else uuid.uuid4().hex, "", words)


def _which(found: BackupManifest) -> str:
    """By what a restored lake knows of which backup it is."""
    return f"{found.lake} of {found.begun.isoformat()}"


def _refuse_catalog(config: Config, found: BackupManifest) -> None:
    """See that the catalog can be queried, and has none of the backup's tables."""
    uri = config.lake.catalog.uri or ""
    file = file_of(sa.make_url(uri)) if uri.startswith("sqlite:") else None
    if file is not None and not file.is_file() and (left := _left_beside(file)):
        raise LakeError(
            f"there is no catalog {file}, and {left} of an older one was left: SQLite would write "
            "it into the restored one",
            next_step="Move it away with its catalog; nothing was changed",
        )
    named = set(metadata_locations(config.lake) or {})
    if config.lake.catalog.is_rest:
        spaces = {entry.namespace for entry in found.catalog}
        named = {name.path for name in served_names(Lake(config.lake), spaces)}
    elif not named and uri and not uri.startswith("sqlite:"):
        Lake(config.lake)  # a server that can't be reached, or refuses this account, is said now
    taken = [e.shown for e in found.catalog if (e.namespace, e.name) in named]
    if taken:
        raise LakeError(
            f"the catalog {hide_url(uri)} is not empty: it has "
            f"{len(taken)} of the backup's tables, {taken[0]} first",
            next_step="Name an empty catalog (lake.catalog), or take these tables out of it "
            "without their files (DROP TABLE without PURGE); nothing was changed",
        )


def _refuse_ledger(config: Config, found: BackupManifest, resumed: LakeIdentity | None) -> None:
    """See that there is no ledger yet, or an empty one; or the one that this restore put there."""
    file = file_of(sa.make_url(config.ledger.url))
    if file is not None and not file.is_file():
        if left := _left_beside(file):
            raise LedgerError(
                f"there is no ledger {file}, and {left} of an older one was left: SQLite would "
                "write it into the restored one",
                next_step="Move it away with its ledger; nothing was changed",
            )
        return
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    ledger.refuse_leases()
    known, filled = ledger.lake(), ledger.filled_table()
    if filled is None or (resumed is not None and known is not None and known[0] == resumed.lake):
        return
    shown = Ledger.shown_url(config.ledger.url)
    if known is not None and known[0] != found.lake:
        raise LedgerError(
            f"the ledger {shown} is of another lake than the backup's: of {known[0]}, in "
            f"{known[1]}",
            next_step="Name this project's backup, or a ledger of its own (ledger.url); nothing "
            "was changed",
        )
    raise LedgerError(
        f"the ledger {shown} is not empty: its table {filled} has rows",
        next_step="Move it away (a SQLite ledger is a file), or name an empty one (ledger.url); "
        "nothing was changed",
    )


def _left_beside(file: Path) -> str:
    """What a SQLite file that is gone left beside it; '' where nothing."""
    paths = (file.with_name(f"{file.name}{end}") for end in _BESIDE)
    return next((path.name for path in paths if path.exists()), "")


def _compare(store: FileStore, found: BackupManifest, tell: OnStep) -> None:
    """See that every file of the backup is what it was, before the first is put back."""
    try:
        if hashlib.sha256(store.read(saved.LEDGER)).hexdigest() != found.ledger:
            raise saved.damaged(store, f"{saved.LEDGER} is not what it was")
    except FileNotFoundError:
        raise saved.damaged(store, f"{saved.LEDGER} is gone") from None
    for number, file in enumerate(found.files):
        name = f"{saved.LAKE}/{file.name}"
        size = store.size(name)
        if size is None:
            raise saved.damaged(store, f"{name} is gone")
        if size != file.bytes or (file.sha256 and store.digest(name) != file.sha256):
            raise saved.damaged(store, f"{name} is not what it was")
        tell("compared", number + 1, len(found.files))


def _copy(store: FileStore, found: BackupManifest, lake_files: FileStore, tell: OnStep) -> None:
    """Copy the files; one that an interrupted restore wrote for another place is copied again."""
    for number, file in enumerate(found.files):
        if lake_files.size(file.name) != file.bytes:
            lake_files.take(store, f"{saved.LAKE}/{file.name}", file.name, link=True)
        tell("files", number + 1, len(found.files))
    lake_files.flush(file.name for file in found.files)


def _put_ledger(
    config: Config,
    store: FileStore,
    lake: Lake,
    lake_id: str,
    places: Places,
) -> None:
    """Write the ledger: whole, or not at all."""
    file = file_of(sa.make_url(config.ledger.url))
    there = file is None or file.is_file()
    if there and Ledger(config.ledger.url, config.ledger.wait).filled_table() is not None:
        return  # this restore's own
    with tempfile.TemporaryDirectory(prefix="mirrorlake-") as scratch:
        part = file.with_name(f"{file.name}.restored") if file else Path(scratch) / saved.LEDGER
        part.parent.mkdir(parents=True, exist_ok=True)
        for end in _BESIDE:
            part.with_name(f"{part.name}{end}").unlink(missing_ok=True)
        part.write_bytes(store.read(saved.LEDGER))
        copied = Ledger(f"sqlite:///{part}", config.ledger.wait)
        copied.move_lake(lake_id, place_of(config.lake), places.moved)
        copied.renew_identity()  # what Dagster remembers is of loads that may be gone
        forget_lost_views(lake, copied)
        del copied
        if file is not None:
            flush_files([part])
            part.replace(file)
            flush_files([file])
            return
        restore_rows(part, config.ledger.url, config.ledger.wait)


def _count_on(config: Config, found: BackupManifest) -> None:
    """Give out no number of a load a second time: more than were given out since the backup are
    left out, for what Dagster and other tools remember of them."""
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    since = max(0, round((datetime.now(UTC) - found.begun).total_seconds()))
    ledger.skip_numbers(ledger.highest_seq() + _LEFT_OUT + since * _A_SECOND)


def _find_loads(config: Config) -> int:
    """Write down the loads that were committed between the ledger's moment and the catalog's."""
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    lake = open_lake(config, ledger)
    return sum(
        rebuild_table(ledger, lake, contract, uuid.uuid4().hex[:12]).loads
        for contract in config.tables
    )
