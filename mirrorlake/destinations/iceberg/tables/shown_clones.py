"""Several clones at once: tables of a namespace of their own that show versions of others, and are
moved to other versions together.

Each is a copy of its original's metadata that knows one version (see
`mirrorlake.destinations.iceberg.tables.clones`). In a SQL catalog all are named by their new
metadata in one transaction; another catalog is given one after the other, each of which is away for
a moment.

What belongs here: their metadata and names. What doesn't: which versions they show, and what keeps
these from expiring.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.sql import LakeCatalog, MetadataMove
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.storage.listing import list_files
from mirrorlake.destinations.iceberg.tables.clones import OF, write_copy
from mirrorlake.errors import CommitConflict, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.runtime.at_once import map_at_once

KEPT: Final = 10
KEPT_FOR: Final = timedelta(hours=1)
"""How many of a clone's newest metadata files always stay, and how long the others do: a reader
opens the one that it began with again."""
_AT_ONCE: Final = 16


@dataclass(frozen=True)
class ShownVersion:
    """A version of a table that a clone is to show.

    Attributes:
        original, snapshot: of which table, and which of its versions; None: no row, of one that
            never had any.
        name: the clone's.
        tag: what keeps the version from expiring, as the clone's property says it.
    """

    original: Identifier
    snapshot: int | None
    name: Identifier
    tag: str


def show_clones(
    lake: Connection, wanted: Sequence[ShownVersion], namespaces: Collection[str] = ()
) -> bool:
    """Have clones show these versions, and no others be in their namespaces; whether that was one
    step for readers.

    Args:
        namespaces: in which no others are to be, either.

    Raises:
        LakeError: a table of one of these names is no clone, or an original or its version is gone:
            nothing was changed.
        CommitConflict: somebody else moved one meanwhile: nothing was changed.
    """
    there = _clones(lake, {*namespaces, *(one.name.namespace for one in wanted)})
    for one in wanted:
        if one.name not in there and lake.load(one.name) is not None:
            raise not_a_clone(one.name)
    written = map_at_once(lambda one: _written(lake, one, there.get(one.name)), wanted, _AT_ONCE)
    failpoint("cut.clone_written")
    names = {one.name for one in wanted}
    after = {one.name: path for one, path in zip(wanted, written, strict=True)}
    together = _move(lake, there, after, there.keys() - names)
    for name in names & there.keys():
        _remove_old(lake, name)
    return together


def not_a_clone(name: Identifier) -> LakeError:
    """The error for a table in the place of a clone."""
    return LakeError(
        f"lake table {name} is there, and is no clone",
        table=str(name),
        next_step="Rename it, or drop it; nothing was changed",
    )


def shown_tags(lake: Connection, namespace: str) -> set[str]:
    """The tags by which the clones in a namespace say what they show."""
    return {tag for tag, _ in shown_versions(lake, {namespace}).values()}


def shown_versions(
    lake: Connection, namespaces: set[str]
) -> dict[Identifier, tuple[str, int | None]]:
    """Clones → the tag by which each says what it shows, and the version that it has now."""
    return {
        name: (table.properties[OF].rsplit(" ", 1)[1], _head(table))
        for name, table in _clones(lake, namespaces).items()
    }


def _head(table: LakeTable) -> int | None:
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot is not None else None


def drop_clones(lake: Connection, namespace: str) -> None:
    """Take the clones of a namespace out of the catalog, together as they came. No file is
    removed."""
    there = _clones(lake, {namespace})
    _move(lake, there, {}, there)


def _clones(lake: Connection, namespaces: set[str]) -> dict[Identifier, LakeTable]:
    found: dict[Identifier, LakeTable] = {}
    for namespace in sorted(namespaces):
        with lake.translated(namespace):
            if not lake.catalog.namespace_exists((namespace,)):
                continue
            names = lake.catalog.list_tables((namespace,))
        for *_, name in names:
            identifier = Identifier(namespace, name)
            table = lake.load(identifier)
            if table is not None and OF in table.properties:
                found[identifier] = table
    return found


def _written(lake: Connection, one: ShownVersion, there: LakeTable | None) -> str:
    """The metadata file by which a clone shows a version; it is written, and nobody's yet."""
    table = lake.load(one.original)
    if table is None or (one.snapshot is not None and table.snapshot_by_id(one.snapshot) is None):
        raise LakeError(
            f"lake table {one.original} has no version {one.snapshot} any more",
            table=str(one.original),
            next_step="Make another cut",
        )
    return write_copy(lake, table, one.snapshot, one.name, one.tag, there)


def _move(
    lake: Connection,
    there: Mapping[Identifier, LakeTable],
    after: Mapping[Identifier, str],
    gone: Collection[Identifier],
) -> bool:
    """Have the catalog name clones by new metadata, and forget others; whether in one step.

    Raises:
        CommitConflict: somebody else moved one; nothing was changed.
    """
    for namespace in {name.namespace for name in after}:
        lake.make_namespace(namespace)
    catalog = lake.catalog
    if isinstance(catalog, LakeCatalog):
        moves = [
            MetadataMove(*name.path, _location(there.get(name)), after.get(name))
            for name in (*gone, *after)
        ]
        with lake.translated("clones"):
            missed = catalog.move_together(moves)
        if missed:
            raise _moved(Identifier(missed[0].namespace, missed[0].name))
        return True
    for name in (*gone, *after):
        with lake.translated(name):
            if name in there:
                catalog.drop_table(name.path)
            if name in after:
                catalog.register_table(name.path, after[name])
    return False


def _location(table: LakeTable | None) -> str | None:
    return table.metadata_location if table is not None else None


def _remove_old(lake: Connection, name: Identifier) -> None:
    """Remove the metadata files of a clone that came before its newest."""
    try:
        table = lake.load(name)
        if table is None:
            return
        found = list_files(table, f"{table.location()}/metadata")
        ours = [file for file in found.files if file.path.endswith(".metadata.json")]
        in_turn = sorted(ours, key=lambda file: (file.path.rsplit("/", 1)[1], file.written))
        for file in in_turn[:-KEPT]:
            if file.written < in_turn[-1].written - KEPT_FOR:  # both by the storage's clock
                found.remove(file)
    except (OSError, LakeError):
        return  # the next move removes them


def _moved(name: Identifier) -> CommitConflict:
    return CommitConflict(
        f"lake table {name}: somebody else moved it at this moment",
        table=str(name),
        next_step="Nothing was changed: try again",
        retryable=True,
    )
