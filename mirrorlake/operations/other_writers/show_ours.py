"""A lake table that other hands moved shows our last version again, where that is still there.

What belongs here: how it is brought back. What doesn't: what follows where it is not
(`mirrorlake.operations.other_writers.moved_layers`, and capabilities' own).
"""

from __future__ import annotations

from datetime import UTC, datetime

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.locations import metadata_locations
from mirrorlake.destinations.iceberg.commits.heads import MovedTable, only_foreign_since
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable, history, open_storage
from mirrorlake.destinations.iceberg.storage.folder_metadata import RENAMED, mark, read_folder
from mirrorlake.destinations.iceberg.storage.listing import listed_path
from mirrorlake.destinations.iceberg.tables.altered_columns import set_columns_back
from mirrorlake.errors import LakeDamaged
from mirrorlake.ledger.lake.lake_heads import LakeHead
from mirrorlake.operations.other_writers.put_right import KEPT
from mirrorlake.workspace import Workspace

_TAG = "mirror_other_hands_"
"""How the names of tags begin that keep what other hands left."""


def show_ours(workspace: Workspace, one: MovedTable, *, register: bool = False) -> str:
    """Show our last version of a lake table again, where it is still there: readers have what was
    proved last at once. What was done, in words; '' where it is not there.

    Args:
        register: whether a table that the catalog lost is registered again.
    """
    if one.how == "altered" and one.recorded is not None:
        workspace.check_lease()
        set_columns_back(workspace.lake, one.identifier, one.recorded)
        workspace.accept(one.identifier)
        return "its columns are as they were"
    if _set_forward(workspace, one):
        return "it is set forward again"
    if one.layer != "raw" and _take_back(workspace, one):
        return f"it shows that version again; theirs is kept for {KEPT.days} days"
    gone = one.recorded if register and one.how == "gone" else None
    if gone is not None and other_name(workspace.lake, one.identifier, gone.uuid):
        lake, at = workspace.lake, workspace.lake.location(one.identifier)
        with lake.translated(one.identifier):
            mark(open_storage(lake.catalog.properties, at), at, [gone.uuid], RENAMED)
    elif gone is not None and _name_recorded(workspace.lake, one.identifier, gone):
        workspace.accept(one.identifier)
        return "it is registered again"
    return ""


def _take_back(workspace: Workspace, one: MovedTable) -> bool:
    """Set main back to our last version, where others alone wrote since; whether it was."""
    left = one.recorded.snapshot_id if one.recorded is not None else None
    if one.how != "written" or one.recorded is None or left is None or one.now is None:
        return False
    table = workspace.lake.load(one.identifier)
    if table is None or table.snapshot_by_id(left) is None or not only_foreign_since(table, left):
        return False
    workspace.check_lease()
    keep_theirs(workspace, one, table)
    workspace.lake.roll_back(one.identifier, left, one.now)
    set_columns_back(workspace.lake, one.identifier, one.recorded)
    workspace.accept(one.identifier)
    return True


def keep_theirs(workspace: Workspace, one: MovedTable, table: LakeTable) -> None:
    """Keep what other hands left for a while, under a tag."""
    if one.now is None:
        return
    name = f"{_TAG}{datetime.now(UTC):%Y%m%d}_{one.now}"
    if name not in table.metadata.refs:
        age = int(KEPT.total_seconds() * 1000)
        with workspace.lake.translated(one.identifier):
            table.manage_snapshots().create_tag(one.now, name, age).commit()


def _set_forward(workspace: Workspace, one: MovedTable) -> bool:
    """Show our last version of a lake table again, where it was set back and the version is there:
    in the table, or in the metadata file that the catalog named then; whether it was."""
    if one.how != "set back" or one.recorded is None:
        return False
    lake, left = workspace.lake, one.recorded.snapshot_id
    table = lake.load(one.identifier)
    if table is None or left is None:
        return False
    workspace.check_lease()
    if table.snapshot_by_id(left) is not None:
        came_of = {snapshot.snapshot_id for snapshot in history(table, left)}
        if one.now is None or one.now not in came_of:
            return False
        lake.set_forward(one.identifier, left, one.now)
        set_columns_back(lake, one.identifier, one.recorded)
    elif not _name_recorded(lake, one.identifier, one.recorded):
        return False
    workspace.accept(one.identifier)
    return True


def _name_recorded(lake: Lake, identifier: Identifier, recorded: LakeHead) -> bool:
    """Have an old copy of the catalog name the metadata file that the ledger knows, if that is
    there; whether it is."""
    at = lake.location(identifier)
    with lake.translated(identifier):
        there = read_folder(open_storage(lake.catalog.properties, at), at, str(identifier))
    known = {listed_path(one.path): one for one in there if one.uuid == recorded.uuid}
    if listed_path(recorded.metadata_location) not in known:
        return False
    lake.name_metadata(identifier, recorded.metadata_location)
    return True


def other_name(lake: Lake, identifier: Identifier, uuid: str, at: str = "") -> str | None:
    """The name by which the catalog has a table that is gone from its own: two names over the same
    files would remove each other's.

    Args:
        at: where its files are; by default where one of its name has them.
    """
    at = at or lake.location(identifier)
    named, folder = metadata_locations(lake.config), f"{listed_path(at)}/"
    with lake.translated(identifier):
        if named is not None:  # Spark writes file:/, PyIceberg file:///
            here = (name for name, path in named.items() if listed_path(path).startswith(folder))
            names = {Identifier(*name) for name in here}
        else:  # only the catalog itself can say
            paths = lake.catalog.list_tables(identifier.namespace)
            names = {Identifier(path[0], path[-1]) for path in paths}
    for name in sorted(names - {identifier}, key=str):
        try:
            table = lake.load(name)
        except LakeDamaged:
            if named is not None:
                return str(name)  # its metadata lies there, whichever table it is
            continue
        if table is not None and str(table.metadata.table_uuid) == uuid:
            return str(name)
    return None
