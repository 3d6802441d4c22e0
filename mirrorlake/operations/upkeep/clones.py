"""Clones: a lake table named a second time, over the same files; see
`mirrorlake.destinations.iceberg.tables.clones`."""

from __future__ import annotations

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.tables.clones import OF, register_clone
from mirrorlake.destinations.iceberg.tables.tags import untag
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.records import Lease


def clone_table(
    lake: Lake, ledger: Ledger, identifier: Identifier, name: Identifier, *, lease: Lease
) -> int:
    """Name what readers see now as a table of its own, without copying rows; the shared snapshot.

    The caller holds the original's lease.

    Raises:
        LakeError: the original is empty, or there is a table of that name.
        LeaseHeld: another run took the original over.
    """
    table = loaded_table(lake, identifier)
    shown = table.current_snapshot()
    if shown is None:
        raise refused_table(identifier, "is empty: there is nothing to clone")
    if lake.load(name) is not None:
        raise refused_table(name, "is there already")
    ledger.check_lease(lease)
    lake.make_namespace(name.namespace)
    if not register_clone(lake, identifier, table, shown.snapshot_id, name):
        raise refused_table(name, "is there already")
    return shown.snapshot_id


def drop_clone(lake: Lake, name: Identifier) -> None:
    """Drop a clone, and let its original's snapshot expire. Files of its own stay for the folder's
    owner: none that the original names is touched.

    Raises:
        LakeError: there is no such table, or it is no clone.
    """
    table = loaded_table(lake, name)
    found = table.properties.get(OF)
    if found is None:
        raise refused_table(name, "is no clone: it is not dropped")
    of, tag = found.rsplit(" ", 1)
    with lake.translated(name):
        lake.catalog.drop_table(name.path)
    for namespace, original in _splits(of):
        untag(lake, Identifier(namespace, original), tag)


def _splits(name: str) -> list[tuple[str, str]]:
    """Every way to read ``namespace.table``: either may hold dots."""
    parts = name.split(".")
    return [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]


def loaded_table(lake: Lake, identifier: Identifier) -> LakeTable:
    table = lake.load(identifier)
    if table is None:
        raise refused_table(identifier, "is not there")
    return table


def refused_table(identifier: Identifier, words: str) -> LakeError:
    return LakeError(
        f"lake table {identifier} {words}",
        table=str(identifier),
        next_step="`mirrorlake publish TABLE` lists its versions; nothing was changed",
    )
