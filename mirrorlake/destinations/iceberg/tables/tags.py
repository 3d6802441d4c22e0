"""Tags: names of versions, which keep them from expiring; with properties of the table that say
what they are.

Source: the Iceberg specification, "Snapshot References".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from pyiceberg.table.update.snapshot import ManageSnapshots

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.errors import LakeError


def tag_version(
    lake: Connection,
    identifier: Identifier,
    snapshot: int,
    tag: str,
    properties: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Tag a version, and set properties of its table, in one commit.

    Raises:
        LakeError: the version is there no more, or the catalog or the storage failed.
    """
    table = lake.load(identifier)
    if table is None or table.snapshot_by_id(snapshot) is None:
        raise LakeError(
            f"lake table {identifier} has no version {snapshot} any more",
            table=str(identifier),
            next_step="Tag a newer one",
        )
    with lake.translated(identifier), table.transaction() as change:
        change.set_properties(dict(properties))
        ManageSnapshots(transaction=change).create_tag(snapshot, tag).commit()


def untag(
    lake: Connection, identifier: Identifier, tag: str, properties: Collection[str] = ()
) -> None:
    """Take a tag away, and properties of the table, in one commit; what is not there stays so.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    table = lake.load(identifier)
    if table is None or tag not in table.metadata.refs:
        return
    with lake.translated(identifier), table.transaction() as change:
        if there := [name for name in properties if name in table.properties]:
            change.remove_properties(*there)
        ManageSnapshots(transaction=change).remove_tag(tag).commit()
