"""What follows where a lake table is not as our last commit left it.

    layer           | what happened         | what follows
    ----------------|-----------------------|------------------------------------------------------
    any             | set back, and our     | set forward again
                    | version is there      |
    deduped, clean  | any other             | made again from raw, in one commit; readers keep what
                    |                       | they see until then; what other hands left stays under
                    |                       | a tag for `KEPT`
    raw             | gone, and its         | refused: `mirrorlake lake find`
                    | metadata is there     |
    raw             | set back, or gone,    | its loads are open windows again; the whole table is
                    | nothing newer there   | read again where MySQL has every row, else refused
    raw             | rows by other hands   | refused: set it back to our last version
    raw             | another table         | refused: put ours back
    any             | files only replaced   | nothing: a compaction changes no row

What belongs here: that table, and what carries it out. What doesn't: how a table is compared with
what the ledger knows (`mirrorlake.destinations.iceberg.heads`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commit import LOAD_ID, snapshot_property
from mirrorlake.destinations.iceberg.folder_metadata import (
    last_sequence,
    read_folder,
    retire_uuids,
)
from mirrorlake.destinations.iceberg.heads import MovedTable, layers_of_table
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.listing import listed_path
from mirrorlake.destinations.iceberg.locations import metadata_locations
from mirrorlake.destinations.iceberg.model import LakeTable, history, open_storage
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger, Load
from mirrorlake.ledger.lake_heads import LakeHead
from mirrorlake.merge.reshape import mark_for_rewrite
from mirrorlake.runtime.plural import plural
from mirrorlake.table.continuity import kept_words
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

KEPT = timedelta(days=7)
"""How long what other hands left of a layer stays under its tag."""
TAG = "mirror_other_hands_"
_LOST = "raw lost "


def put_right(workspace: Workspace, contract: TableContract, key: Sequence[str]) -> list[str]:
    """Put right what can be of a table's lake tables before it is loaded or folded, and mark what
    the next fold makes again; what was found, in words. The workspace holds the table's lease.

    Args:
        key: the columns that identify a row of the table; none where nothing does.

    Raises:
        LakeError: raw is not as it was left, and nothing but a person can put it right.
    """
    found: list[str] = []
    lost: list[Load] = []
    waiting: list[MovedTable] = []
    for one in workspace.moved:
        if _set_forward(workspace, one):
            found.append(f"{_words(contract, one)}: it is set forward again")
        elif one.layer == "raw":
            lost += _find_lost(workspace, contract, one)
            found.append(_words(contract, one))
        else:
            waiting.append(one)
    if lost:
        found.append(_read_again(workspace, contract, key, lost))
    for one in workspace.moved:
        if one.layer == "raw":
            workspace.accept(one.identifier)
    for one in waiting:
        _make_again(workspace, one)
        found.append(f"{_words(contract, one)}: it is made again from raw")
    for words in found:
        logger.warning("%s", words)
    return found


def accept_made(workspace: Workspace) -> None:
    """Record that the fold made every layer again that was marked for it."""
    for one in workspace.moved:
        if one.layer != "raw":
            workspace.accept(one.identifier)


def refuse_moved(workspace: Workspace, contract: TableContract, *layers: str) -> None:
    """See that these layers (all by default) are as our last commits left them.

    Raises:
        LakeError: one is not.
    """
    for one in workspace.moved:
        if not layers or one.layer in layers:
            raise LakeError(
                _words(contract, one),
                table=contract.name,
                next_step=f"`mirrorlake sync {contract.name}` puts it right, or says what does",
            )


def refuse_unread(ledger: Ledger, contract: TableContract) -> None:
    """See that raw is not what is left of it after loads were lost: a fold of that would show
    readers fewer rows than they see.

    Raises:
        LakeError: the table was not read again yet.
    """
    mark = ledger.unproved(contract.name)
    if mark is not None and mark.reason.startswith(_LOST):
        raise LakeError(
            f"table {contract.name}: {mark.reason}, and it was not read again since",
            table=contract.name,
            next_step=f"`mirrorlake sync {contract.name}` reads it again",
        )


def refuse_removal(workspace: Workspace, contract: TableContract) -> None:
    """See that no file of a table is taken for an orphan by the word of a catalog that is old, lost
    or another's.

    Raises:
        LakeError: a lake table of it may be one.
    """
    for one in workspace.moved:
        if one.layer == "raw" or one.how in ("set back", "another"):
            refuse_moved(workspace, contract, one.layer)


def _words(contract: TableContract, one: MovedTable) -> str:
    return f"table {contract.name}: {one.said}"


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


# --- layers made of raw ---------------------------------------------------------------------------


def _make_again(workspace: Workspace, one: MovedTable) -> None:
    """Keep what other hands left for a while, and have the next fold write the layer as a whole."""
    lake, ledger = workspace.lake, workspace.ledger
    table = lake.load(one.identifier)
    if table is not None and one.now is not None:
        name = f"{TAG}{datetime.now(UTC):%Y%m%d}_{one.now}"
        if name not in table.metadata.refs:
            age = int(KEPT.total_seconds() * 1000)
            with lake.translated(one.identifier):
                table.manage_snapshots().create_tag(one.now, name, age).commit()
    if one.recorded is not None and one.how == "gone":
        _retire(workspace, one.identifier, one.recorded.uuid)
    mark_for_rewrite(ledger, one.identifier, one.words)
    failpoint("moved.marked")


def _retire(workspace: Workspace, identifier: Identifier, uuid: str) -> None:
    """Let the files of a layer go that is in the catalog no more; unless it is there by another
    name, as far as that can be told."""
    lake, at = workspace.lake, workspace.lake.location(identifier)
    named = metadata_locations(workspace.config.lake)
    if named is None or any(one.startswith(f"{at}/") for one in named.values()):
        return
    with lake.translated(identifier):
        retire_uuids(open_storage(lake.catalog.properties, at), at, [uuid])


# --- raw ------------------------------------------------------------------------------------------


def _find_lost(workspace: Workspace, contract: TableContract, one: MovedTable) -> list[Load]:
    """The loads that a raw table lost, where nothing brings it back.

    Raises:
        LakeError: a person must put it right.
    """
    left = one.recorded.snapshot_id if one.recorded else None
    if one.how == "written":
        raise LakeError(
            _words(contract, one),
            table=contract.name,
            next_step="Raw holds what MySQL said, and nothing else: set its main back to version "
            f"{left} (Iceberg's set_current_snapshot), then sync again",
        )
    table = workspace.lake.load(one.identifier)
    _refuse_found(workspace, contract, one, table)
    return _lost_loads(workspace, contract, one, table)


def _refuse_found(
    workspace: Workspace, contract: TableContract, one: MovedTable, table: LakeTable | None
) -> None:
    """See that no metadata file in raw's folder knows more than the catalog does.

    Raises:
        LakeError: one does, or another table stands in raw's place.
    """
    lake, at = workspace.lake, workspace.lake.location(one.identifier)
    with lake.translated(one.identifier):
        there = read_folder(open_storage(lake.catalog.properties, at), at, str(one.identifier))
    uuid = one.recorded.uuid if one.recorded else None
    sequence = last_sequence(table) if table is not None else -1
    if one.how == "another":
        raise LakeError(
            _words(contract, one),
            table=contract.name,
            next_step="Rename or drop the table that stands in its place, then put ours back: by "
            "its name, or by `mirrorlake lake find`",
        )
    newer = [m for m in there if m.sequence > sequence and uuid in (None, m.uuid)]
    if newer:
        raise LakeError(
            f"{_words(contract, one)}; the catalog was lost, or is an old copy: {newer[0].path} is "
            "newer",
            table=contract.name,
            next_step="Put back the newest catalog, or run `mirrorlake lake find`, which registers "
            "tables again from their newest metadata files",
        )


def _lost_loads(
    workspace: Workspace, contract: TableContract, one: MovedTable, table: LakeTable | None
) -> list[Load]:
    """The loads that committed to a raw table and that it does not hold any more: those after the
    newest that it shows."""
    loads = workspace.ledger.successful_loads(contract.name, ever=True)
    mine = [x for x in loads if x.raw_table == one.identifier.name and x.snapshot_id is not None]
    if table is None:
        return mine
    shown = {snapshot_property(snapshot, LOAD_ID) for snapshot in history(table)}
    newest = max((x.seq for x in mine if x.load_id in shown), default=0)
    return [load for load in mine if load.seq > newest]


def _read_again(
    workspace: Workspace, contract: TableContract, key: Sequence[str], lost: Sequence[Load]
) -> str:
    """Open the windows of lost loads again, and have the whole table read again.

    Raises:
        LakeError: MySQL need not have every row any more.
    """
    reason = f"{_LOST}{plural(len(lost), 'load')} (since {lost[0].started_at:%Y-%m-%d %H:%M} UTC)"
    if why := _only_in_raw(contract, key):
        raise LakeError(
            f"table {contract.name}: {reason}, and MySQL need not have their rows any more: {why}",
            table=contract.name,
            next_step=f"Put back from a backup what raw was after load {lost[-1].load_id} (version "
            f"{lost[-1].snapshot_id}): the table's folder, and its row of the catalog; or mirror "
            "the table again under other namespaces",
        )
    servers = [load.receipt.server for load in reversed(lost) if load.receipt]
    ledger = workspace.ledger
    for layer, identifier in layers_of_table(ledger, contract):
        if layer != "raw":
            mark_for_rewrite(ledger, identifier, reason)
    # Marked first: who dies in between finds the same loads lost again.
    ledger.mark_unproved(contract.name, servers[0] if servers else "", reason)
    failpoint("moved.unproved")
    ledger.lose_loads(lost, reason)
    return f"table {contract.name}: {reason}: every row is read again"


def _only_in_raw(contract: TableContract, key: Sequence[str]) -> str:
    """Why MySQL need not have what a load read; '' where it has."""
    if kept := kept_words(contract):
        return kept
    return "" if contract.copies or key else f"mode {contract.mode}, without a key"
