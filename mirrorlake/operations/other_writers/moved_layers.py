"""What follows where a lake table is not as our last commit left it.

    layer           | what happened         | what follows
    ----------------|-----------------------|------------------------------------------------------
    any             | set back, and our     | set forward again
                    | version is there      |
    any but raw     | rows by other hands,  | our version is shown again at once; what other hands
                    | ours is there         | left stays under a tag for `KEPT`
    any             | columns taken away,   | set back at once: every value is shown again
                    | renamed, of another   |
                    | type; no file written |
    any but raw     | gone, and its         | registered again at once, unless another name has it
                    | metadata is there     |
    deduped, clean  | any other             | made again from raw, in one commit; readers keep what
                    |                       | they see until then, and the tag stays as above
    raw             | gone, and its         | refused: `mirrorlake lake find`
                    | metadata is there     |
    raw             | set back, or gone,    | its lost loads are unknown windows; the whole table is
                    | nothing newer there   | read again where MySQL has every row, else refused
    raw             | files by other hands  | refused: set it back to our last version
    raw             | another table         | refused: put ours back
    any but raw     | files only replaced   | nothing: a compaction changes no row

What belongs here: that table, and what carries it out. What doesn't: how a table is compared with
what the ledger knows (`mirrorlake.destinations.iceberg.commits.heads`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import quote

from mirrorlake.config import Mirrored, TableContract, TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.commits.heads import (
    ModelTable,
    MovedTable,
    Recorded,
    layers_of_table,
)
from mirrorlake.destinations.iceberg.model import (
    LakeTable,
    history,
    open_storage,
    snapshot_property,
)
from mirrorlake.destinations.iceberg.storage.folder_metadata import (
    RETIRED,
    last_sequence,
    mark,
    read_folder,
)
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger, Load
from mirrorlake.merge.reshape import mark_for_rewrite
from mirrorlake.operations.other_writers.put_right import note_put_right
from mirrorlake.operations.other_writers.show_ours import keep_theirs, other_name, show_ours
from mirrorlake.runtime.plural import plural
from mirrorlake.table.continuity import kept_words
from mirrorlake.table.tenants_in_log import has_changes_in
from mirrorlake.workspace import Workspace

_LOST = "raw lost "


def put_right(workspace: Workspace, contract: Mirrored, key: Sequence[str] = ()) -> list[str]:
    """Put right what can be of a table's lake tables before it is loaded or folded, and mark what
    the next fold makes again; what was found, in words. The workspace holds the table's lease.

    Args:
        key: the columns that identify a row of the table; none where nothing does. Each tenant's
            copy is whole: it needs none.

    Raises:
        LakeError: raw is not as it was left, and nothing but a person can put it right.
    """
    found: list[str] = []
    lost: dict[Identifier, list[Load]] = {}
    waiting: list[MovedTable] = []
    for one in workspace.moved:
        if done := show_ours(workspace, one, register=one.layer != "raw"):
            found.append(f"{_words(contract, one)}: {done}")
        elif one.layer == "raw":
            lost[one.identifier] = _find_lost(workspace, contract, one)
            found.append(_words(contract, one))
        else:
            waiting.append(one)
    if any(lost.values()):
        found.append(
            _read_tenants_again(workspace, contract, lost)
            if isinstance(contract, TenantTable)
            else _read_again(workspace, contract, key, lost)
        )
    for one in workspace.moved:
        if one.layer == "raw":
            workspace.accept(one.identifier)
    for one in waiting:
        _make_again(workspace, one)
        if not isinstance(contract, TenantTable):  # whose folds know what they left
            mark_for_rewrite(workspace.ledger, one.identifier, one.words)
            failpoint("moved.marked")
        found.append(f"{_words(contract, one)}: it is made again from raw")
    note_put_right(workspace.ledger, contract.name, found)
    return found


def accept_made(workspace: Workspace, contract: Recorded, found: Sequence[str]) -> list[str]:
    """Record that the fold made every layer again that was marked for it, and every view that
    other hands had changed; what was found in all, in words.

    Args:
        found: what `put_right` said of the same lease.
    """
    for one in workspace.moved:
        if one.layer != "raw":
            workspace.accept(one.identifier)
    views = [f"table {contract.name}: {words}" for words in workspace.views]
    if views:
        note_put_right(workspace.ledger, contract.name, views, before=found)
    return [*found, *views]


def refuse_moved(workspace: Workspace, contract: Recorded, *layers: str) -> None:
    """See that these layers (all by default) are as our last commits left them.

    Raises:
        LakeError: one is not.
    """
    for one in workspace.moved:
        if not layers or one.layer in layers:
            raise LakeError(
                _words(contract, one),
                table=contract.name,
                next_step=f"`mirrorlake {_command(contract)}` puts it right, or says what does",
            )


def _command(contract: Recorded) -> str:
    """What works on a table, or a model, of this kind."""
    if isinstance(contract, ModelTable):
        return f"run {contract.model}"
    return f"{'land' if contract.landed else 'sync'} {contract.name}"


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
            next_step=f"`mirrorlake sync {quote(contract.name)}` reads it again",
        )


def refuse_removal(workspace: Workspace, contract: Recorded) -> None:
    """See that no file of a table is taken for an orphan by the word of a catalog that is old, lost
    or another's.

    Raises:
        LakeError: a lake table of it may be one, or a compaction would lose what it does not show.
    """
    for one in workspace.moved:
        if one.layer == "raw" or one.how in ("set back", "another", "altered"):
            refuse_moved(workspace, contract, one.layer)


def _words(contract: Recorded, one: MovedTable) -> str:
    name = contract.name if isinstance(contract, ModelTable) else f"table {contract.name}"
    return f"{name}: {one.said}"


# --- layers made of raw ---------------------------------------------------------------------------


def _make_again(workspace: Workspace, one: MovedTable) -> None:
    """Keep what other hands left for a while, and have the next fold write the layer as a whole."""
    table = workspace.lake.load(one.identifier)
    if table is not None:
        keep_theirs(workspace, one, table)
    if one.recorded is not None and one.how == "gone":
        _retire(workspace, one.identifier, one.recorded.uuid)


def _retire(workspace: Workspace, identifier: Identifier, uuid: str) -> None:
    """Let the files of a layer go that is in the catalog no more; unless it is there by another
    name, as far as that can be told."""
    lake, at = workspace.lake, workspace.lake.location(identifier)
    if other_name(lake, identifier, uuid):
        return
    with lake.translated(identifier):
        mark(open_storage(lake.catalog.properties, at), at, [uuid], RETIRED)


# --- raw ------------------------------------------------------------------------------------------


def _find_lost(workspace: Workspace, contract: Recorded, one: MovedTable) -> list[Load]:
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
    workspace: Workspace, contract: Recorded, one: MovedTable, table: LakeTable | None
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
    if newer and table is None and (name := other_name(lake, one.identifier, newer[0].uuid)):
        raise LakeError(
            f"{_words(contract, one)}; it is there as {name}",
            table=contract.name,
            next_step=f"Rename that table back to {one.identifier}",
        )
    if newer:
        raise LakeError(
            f"{_words(contract, one)}; the catalog was lost, or is an old copy: {newer[0].path} is "
            "newer",
            table=contract.name,
            next_step="Put back the newest catalog, or run `mirrorlake lake find`, which registers "
            "tables again from their newest metadata files",
        )


def _lost_loads(
    workspace: Workspace, contract: Recorded, one: MovedTable, table: LakeTable | None
) -> list[Load]:
    """The loads that committed to a raw table and that it does not hold any more: those after the
    newest that it shows."""
    ledger = workspace.ledger
    # Those that were lost before, and that a person was asked for, are still lost.
    loads = [*ledger.unknown_loads(contract.name)]
    loads += ledger.successful_loads(contract.name, ever=True)
    loads.sort(key=lambda load: load.seq)
    mine = [x for x in loads if x.raw_table == one.identifier.name and x.snapshot_id is not None]
    if table is None:
        return mine
    shown = {snapshot_property(snapshot, LOAD_ID) for snapshot in history(table)}
    newest = max((x.seq for x in mine if x.load_id in shown), default=0)
    return [load for load in mine if load.seq > newest]


def _read_again(
    workspace: Workspace,
    contract: TableContract,
    key: Sequence[str],
    gone: Mapping[Identifier, Sequence[Load]],
) -> str:
    """Write down that the windows of lost loads are unknown, and have the whole table read again.

    Raises:
        LakeError: MySQL need not have every row any more.
    """
    lost = sorted((load for loads in gone.values() for load in loads), key=lambda load: load.seq)
    reason = f"{_LOST}{plural(len(lost), 'load')} (since {lost[0].started_at:%Y-%m-%d %H:%M} UTC)"
    ledger = workspace.ledger
    if why := _only_in_raw(contract, key):
        # What comes back by a backup is found in raw's history, and is a success again.
        ledger.lose_loads(lost, reason, may_return=True)
        folders = ", ".join(workspace.lake.location(at) for at, loads in gone.items() if loads)
        raise LakeError(
            f"table {contract.name}: {reason}, and MySQL need not have their rows any more: {why}",
            table=contract.name,
            next_step=f"Put back the table's folder ({folders}) from a "
            f"backup, as it was after load {lost[-1].load_id} (version {lost[-1].snapshot_id}), "
            "then run `mirrorlake lake find`, which has the catalog name it; or mirror the table "
            "again under other namespaces",
        )
    servers = [load.receipt.server for load in reversed(lost) if load.receipt]
    for layer, identifier in layers_of_table(ledger, contract):
        if layer != "raw":
            mark_for_rewrite(ledger, identifier, reason)
    # Marked first: who dies in between finds the same loads lost again.
    ledger.mark_unproved(contract.name, servers[0] if servers else "", reason)
    failpoint("moved.unproved")
    ledger.lose_loads(lost, reason)
    return f"table {contract.name}: {reason}: every row is read again"


def _read_tenants_again(
    workspace: Workspace, table: TenantTable, gone: Mapping[Identifier, Sequence[Load]]
) -> str:
    """Have the tenants read again whose copies were lost; of one that MySQL has no more, and that
    deduped does not show, the fold says that it is lost."""
    ledger = workspace.ledger
    lost = sorted((load for loads in gone.values() for load in loads), key=lambda load: load.seq)
    reason = f"{_LOST}{len(lost)} loads (since {lost[0].started_at:%Y-%m-%d %H:%M} UTC)"
    loads = {load.load_id for load in lost}
    # Without terms they are read again, as if their contract had changed.
    again = [
        replace(tenant, terms=None)
        for tenant in ledger.tenants(table.name).values()
        if tenant.load_id in loads or any(has_changes_in(tenant, load) for load in lost)
    ]
    ledger.record_tenants(table.name, again)
    failpoint("moved.unproved")
    ledger.lose_loads(lost, reason)
    return f"table {table.name}: {reason}: {len(again)} tenants are read again"


def _only_in_raw(contract: TableContract, key: Sequence[str]) -> str:
    """Why MySQL need not have what a load read; '' where it has."""
    if kept := kept_words(contract):
        return kept
    whole = contract.copies or contract.by_count
    return "" if whole or key else f"mode {contract.mode}, without a key"
