"""Where a project's parts are, and where a copy of them may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from mirrorlake.config import Config
from mirrorlake.config.fields import hide_url
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.catalog.entries import CatalogEntry
from mirrorlake.destinations.iceberg.storage.file_store import FileStore
from mirrorlake.destinations.iceberg.storage.folders import table_uri
from mirrorlake.destinations.iceberg.warehouse.identity import writes_itself
from mirrorlake.destinations.iceberg.warehouse.lake_location import real_place
from mirrorlake.errors import ConfigError, LakeError

OnStep = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much."""


def table_names(config: Config) -> Iterator[str]:
    """Every table of a contract file: mirrored ones, those of snapshots, and those of tenants."""
    for table in config.mirrored:
        yield table.name


def refuse_nested(lake: FileStore, other: FileStore, what: str) -> None:
    """See that neither of two folders is in the other: each would become a part of itself.

    Raises:
        ConfigError: one is.
    """
    here, there = (real_place(store.root).rstrip("/") + "/" for store in (lake, other))
    if here.startswith(there) or there.startswith(here):
        raise ConfigError(
            f"{other.root} and the lake ({lake.root}) are one folder, or one is in the other: "
            f"{what} needs a place of its own",
            next_step="Name another folder",
        )


def refuse_lent(config: LakeConfig, what: str) -> None:
    """See that a lake's files can be read and written past its catalog.

    Raises:
        LakeError: a REST server may lend a login for each table's folder alone.
    """
    if not writes_itself(config):
        raise LakeError(
            f"{what} needs a login to {config.warehouse} of its own: the REST catalog "
            f"{hide_url(config.catalog.uri or '')} may lend one for a table's folder alone",
            next_step="Back up ledger, catalog and bucket by their own means, in the order that "
            "docs/backup.md has; nothing was changed",
        )


def spellings(place: str, entries: Iterable[CatalogEntry]) -> tuple[str, ...]:
    """A lake's place, and each other root under which a catalog names tables as a lake has them:
    the place itself through a link, or where the lake was before."""
    found = {place: None}
    for entry in entries:
        folder = entry.metadata.rpartition("/metadata/")[0]
        root = folder.rpartition("/")[0].rpartition("/")[0]
        if root and folder == table_uri(root, (entry.namespace, entry.name)):
            found[root] = None
    return tuple(found)
