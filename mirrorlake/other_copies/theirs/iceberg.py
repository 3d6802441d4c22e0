"""Iceberg: a metadata file, a table's folder, or ``iceberg://catalog/namespace/table``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.reading.other_tables import (
    newest_metadata,
    open_in_catalog,
    open_metadata,
    rows_of_other,
    tables_in_catalog,
)
from mirrorlake.errors import ConfigError
from mirrorlake.other_copies.theirs.streamed import put_aside
from mirrorlake.other_copies.theirs.table import TheirRows

SCHEME = "iceberg://"


@dataclass(frozen=True)
class IcebergTable:
    """A table, opened when it is read."""

    name: str
    where: str
    load: Callable[[], LakeTable]
    schema: str = ""

    @property
    def place(self) -> str:
        return f"Iceberg, {self.where}"

    def open(self, database: Any, folder: Path) -> TheirRows:
        """See `TheirTable.open`."""
        schema, batches, version = rows_of_other(self.load())
        return put_aside(database, folder, schema, batches, version)


def iceberg_folder(folder: Path) -> IcebergTable | None:
    """The table of a folder, if it is one."""
    found = newest_metadata(folder)
    return None if found is None else iceberg_metadata(found, folder.name)


def iceberg_metadata(path: Path, name: str | None = None) -> IcebergTable:
    """The table that a metadata file describes."""
    own = name or path.resolve().parent.parent.name
    return IcebergTable(own, str(path), lambda: open_metadata(str(path.resolve())))


def iceberg_catalog(uri: str, wanted: str | None) -> list[IcebergTable]:
    """What ``iceberg://catalog/namespace[/table]`` names; of a namespace, each of its tables.

    Raises:
        ConfigError: it names no catalog and namespace.
        LakeError: the catalog can't be read.
    """
    catalog, *parts = [part for part in uri.removeprefix(SCHEME).split("/") if part]
    if not parts:
        raise ConfigError(
            f"{uri} names no namespace", next_step="Write iceberg://catalog/namespace/table"
        )
    if len(parts) > 1:
        names = [".".join(parts)]
    else:
        listed = tables_in_catalog(catalog, parts[0])
        names = [f"{parts[0]}.{one}" for one in listed if wanted in (None, one)]
    return [
        IcebergTable(
            name.rpartition(".")[2],
            f"{catalog}: {name}",
            lambda name=name: open_in_catalog(catalog, name),
        )
        for name in names
    ]
