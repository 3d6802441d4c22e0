"""What a backup says of itself: written last, so a backup without it is not complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from shlex import quote

from mirrorlake.destinations.iceberg.catalog.entries import CatalogEntry
from mirrorlake.destinations.iceberg.storage.file_store import FileStore
from mirrorlake.errors import LakeError
from mirrorlake.ledger.database.migrations import LEDGER_VERSION
from mirrorlake.runtime.plural import plural

FILE = "manifest.json"
LEDGER = "ledger.db"
LAKE = "lake"
"""The folder of a backup that holds the lake's files."""
FORMAT = 1
_LISTED = 10
"""Backups that an error names, at most: the newest."""
_KEY = "sha256"


@dataclass(frozen=True)
class SavedFile:
    """A file of the lake.

    Attributes:
        name: below the lake.
        sha256: of its bytes, in hexadecimal; '' where a bucket's store copied it unread.
    """

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class BackupManifest:
    """What a backup holds.

    Attributes:
        release: of Mirrorlake, that made it; ledger_version: of the ledger in it.
        begun: the moment (UTC) of ledger and catalog; ended: when the last file was there.
        one_moment: whether ledger and catalog are of one moment. Else the ledger is the older of
            the two, by less than a second a try.
        lake: the lake's id; warehouse: its place; spelled: as its files name it.
        tables: the contract's.
        ledger: SHA-256 of the ledger.
    """

    release: str
    ledger_version: int
    begun: datetime
    ended: datetime
    one_moment: bool
    lake: str
    warehouse: str
    spelled: tuple[str, ...]
    tables: tuple[str, ...]
    ledger: str
    catalog: tuple[CatalogEntry, ...]
    files: tuple[SavedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def to_json(self) -> bytes:
        content = {"mirrorlake_backup": FORMAT, **asdict(self)}
        content |= {"begun": self.begun.isoformat(), "ended": self.ended.isoformat()}
        return json.dumps({**content, _KEY: _digest(content)}, indent=1).encode()


def read_manifest(store: FileStore) -> BackupManifest:
    """The manifest of a backup.

    Raises:
        LakeError: the backup is not complete, damaged, or of a newer release.
    """
    try:
        content = json.loads(store.read(FILE))
        said = content.pop(_KEY)
    except FileNotFoundError:
        if there := [n for n in store.folders() if store.size(f"{n}/{FILE}") is not None]:
            raise LakeError(
                f"{store.root} is no backup itself; it has {plural(len(there), 'backup')}: "
                f"{', '.join(there[::-1][:_LISTED])}",
                next_step="Name one of them; `mirrorlake restore "
                f"{quote(store.root)}/{there[-1]}` puts back the newest",
            ) from None
        raise LakeError(
            f"{store.root} is no complete backup: it has no {FILE}, which is written last",
            next_step="Name the folder of one backup (TARGET/<time>); one that was interrupted is "
            "of no use: remove it, and use an older one",
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(store, f"its {FILE} can't be read") from error
    newer = content.get("mirrorlake_backup", 0) > FORMAT
    if newer or content.get("ledger_version", 0) > LEDGER_VERSION:
        raise LakeError(
            f"the backup {store.root} was made by Mirrorlake {content.get('release')}, which is "
            "newer than this one",
            next_step="Install that release, or a newer one; nothing was changed",
        )
    if said != _digest(content):
        raise damaged(store, f"its {FILE} was changed or cut")
    del content["mirrorlake_backup"]
    content |= {
        "begun": datetime.fromisoformat(content["begun"]),
        "ended": datetime.fromisoformat(content["ended"]),
        "spelled": tuple(content["spelled"]),
        "tables": tuple(content["tables"]),
        "catalog": tuple(CatalogEntry(**one) for one in content["catalog"]),
        "files": tuple(SavedFile(**one) for one in content["files"]),
    }
    return BackupManifest(**content)


def refuse_other_project(
    store: FileStore, manifest: BackupManifest, tables: Collection[str]
) -> None:
    """See that a backup is of this contract file's project.

    Raises:
        LakeError: they have no table in common.
    """
    if manifest.tables and not set(manifest.tables).intersection(tables):
        raise LakeError(
            f"the backup {store.root} is of another project: it holds "
            f"{manifest.tables[0]}, and this contract file has none of its tables",
            next_step="Name this project's backup, or its contract file (--config); nothing was "
            "changed",
        )


def damaged(store: FileStore, what: str) -> LakeError:
    """A backup whose bytes are not what they were."""
    return LakeError(
        f"the backup {store.root} is damaged: {what}",
        next_step="Use another backup; nothing was changed",
    )


def _digest(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
