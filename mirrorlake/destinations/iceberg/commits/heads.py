"""Whether a lake table is as our last commit left it.

The ledger remembers each table's uuid and the version that main showed. A commit of ours carries a
property of ours, so one whose record was lost with its run is known by it. What nobody of ours
committed is another's, unless it changed no row.

What belongs here: the states. What doesn't: what follows from them
(`mirrorlake.operations.other_writers.moved_layers`), and what is recorded
(`mirrorlake.destinations.iceberg.commits.recorded_heads`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from mirrorlake.config.contract import TableContract, TenantTable
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.base import SIDES, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.locations import metadata_locations
from mirrorlake.destinations.iceberg.commits.commit import BASE, highest_number, newest_load
from mirrorlake.destinations.iceberg.metadata.row_counts import count_by_manifests
from mirrorlake.destinations.iceberg.model import history, is_rewrite, snapshot_property
from mirrorlake.destinations.iceberg.tables.altered_columns import has_other_columns
from mirrorlake.errors import LakeDamaged, LedgerError
from mirrorlake.ledger.lake.lake_heads import OF_MODELS, LakeHead
from mirrorlake.ledger.store import Ledger

How: TypeAlias = Literal["written", "altered", "set back", "another", "gone"]
"""How a lake table is not as our last commit left it: rows were written by others; columns were
taken away, renamed or given another type; main shows an older version; another table has its name;
or none has."""
_OURS = "mirrorlake."
_CHANGES = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")


@dataclass(frozen=True)
class ModelTable:
    """The table of a model: what is leased, and what is recorded of it."""

    model: str
    identifier: Identifier

    @property
    def name(self) -> str:
        """What its lease is called."""
        return f"{OF_MODELS}{self.model}"


Recorded: TypeAlias = TableContract | TenantTable | ModelTable
"""What is leased, and whose lake tables are known by their heads."""


@dataclass(frozen=True)
class MovedTable:
    """A lake table that is not as our last commit left it.

    Attributes:
        layer: ``raw``, ``deduped``, ``clean``, ``model`` or ``side`` (beside a landing's rows).
        recorded: what our last commit left; None where an older release recorded nothing.
        now: the snapshot that main shows; None of none.
    """

    identifier: Identifier
    layer: str
    how: How
    recorded: LakeHead | None
    now: int | None = None

    @property
    def said(self) -> str:
        """Which lake table it is, and what happened to it."""
        what = "table" if self.layer == "model" else f"{self.layer} table"
        return f"its {what} {self.identifier} {self.words}"

    @property
    def words(self) -> str:
        """What happened to it, after its name."""
        left = self.recorded.snapshot_id if self.recorded else None
        if self.how == "written":
            return f"was written to by other hands since Mirrorlake's last commit ({left})"
        if self.how == "altered":
            return f"has not the columns any more that Mirrorlake's last commit ({left}) left"
        if self.how == "set back":
            return (
                f"shows version {self.now}, which is older than Mirrorlake's last commit ({left})"
            )
        if self.how == "another":
            return "is another table than the one that Mirrorlake made"
        return "is not in the catalog any more"


def layers_of_table(ledger: Ledger, contract: Recorded) -> list[tuple[str, Identifier]]:
    """The lake tables whose heads are recorded, with their layers."""
    if isinstance(contract, ModelTable):
        return [("model", contract.identifier)]
    spaces = contract.namespaces
    found = [("deduped", Identifier(spaces.deduped, contract.table))]
    if contract.landed:
        return [*found, *(("side", found[0][1].beside(name)) for name in SIDES)]
    if contract.clean == "table":
        found.append(("clean", Identifier(spaces.clean, contract.table)))
    for version in ledger.schema_versions(contract.name):
        found.append(("raw", Identifier(spaces.raw, version.raw_table)))
    return found


def find_moved_tables(
    config: LakeConfig, lake: Connection, ledger: Ledger, contract: Recorded
) -> list[MovedTable]:
    """The lake tables of a contract that are not as our last commits left them; raw first. What is
    named by the same metadata file costs no look at it.

    Raises:
        LakeError: they can't be read.
        LedgerError: nor can it; or raw holds a load that it does not know.
    """
    heads = {head.name: head for head in ledger.lake_heads(contract.name)}
    layers = layers_of_table(ledger, contract)
    named = metadata_locations(config, {identifier.path for _, identifier in layers}) or {}
    found: list[MovedTable] = []
    for layer, identifier in reversed(layers):
        head = heads.get(identifier.path)
        if head is not None and named.get(identifier.path) == head.metadata_location:
            continue
        if head is None and (heads or _was_elsewhere(ledger, contract)):
            continue  # it is new: another schema version, or other namespaces
        try:
            table = lake.load(identifier)
        except LakeDamaged:
            continue  # who reads it names the file, and the way out
        # A tenant's copies are whole: what is not known is read again.
        if layer == "raw" and table is not None and isinstance(contract, TableContract):
            refuse_unknown_load(ledger, contract.name, identifier, table)
        how = _unrecorded(ledger, contract, layer, identifier, table) if head is None else None
        if head is not None:
            with lake.translated(identifier):
                of_loads = layer == "raw" and isinstance(contract, TableContract)
                how = how_moved(table, head, files=of_loads)
                if how is None and table is not None and _is_altered(table, head, layer):
                    shows_ours = table.metadata.current_snapshot_id == head.snapshot_id
                    # Files that were written again since have no values of what was taken away.
                    how = "altered" if shows_ours else "written"
        if how is not None:
            now = table.metadata.current_snapshot_id if table is not None else None
            found.append(MovedTable(identifier, layer, how, head, now))
    return found


def refuse_unknown_load(ledger: Ledger, name: str, identifier: Identifier, table: Table) -> None:
    """See that the ledger is the one that a raw table was loaded with.

    Another one, such as an older copy, would give out numbers that the table's rows carry already,
    and fold what is left without what it does not know.

    Raises:
        LedgerError: it does not know the newest load.
    """
    if (load_id := skip_unknown(ledger, table)) is not None:
        raise LedgerError(
            f"lake table {identifier} holds load {load_id}, which the ledger does not know",
            table=name,
            next_step="This ledger was lost or is an old copy, or another one's project (such as a "
            "copy of this one) loads into this lake: give that a lake of its own. Then run "
            "`mirrorlake ledger rebuild`",
        )


def skip_unknown(ledger: Ledger, table: Table) -> str | None:
    """The newest load of a raw table, where the ledger does not know it: what other tables load
    then gets none of this table's numbers.

    Raises:
        LedgerError: the ledger can't be read.
    """
    load_id = newest_load(table)
    if load_id is None or ledger.knows(load_id):
        return None
    ledger.skip_numbers(highest_number(table))
    return load_id


def how_moved(
    table: Table | None, head: LakeHead, *, leased: bool = False, files: bool = False
) -> How | None:
    """How a lake table is not as a commit of ours left it; None where it is, or commits of ours
    alone changed it since.

    Args:
        files: whether the files themselves must be ours, as a mirrored table's raw ones, which
            loads name: others then may not write them again either.
        leased: whether our lease was held since: then files that were replaced were by us.
    """
    if table is None:
        return "gone"
    if str(table.metadata.table_uuid) != head.uuid:
        return "another"
    shown = table.current_snapshot()
    if shown is None:
        return "set back" if head.snapshot_id is not None else None
    for snapshot in _without_branches(table):
        if snapshot.snapshot_id == head.snapshot_id:
            return None
        if (snapshot.sequence_number or 0) <= head.sequence:
            return "set back"
        if _is_ours(snapshot):
            continue
        if (files and _changes_files(snapshot)) or not _keeps_rows(table, snapshot, leased=leased):
            return "written"
    return None  # made again on a branch that began with nothing, or what it came of expired


def _is_altered(table: Table, head: LakeHead, layer: str) -> bool:
    """Whether a table has not the columns that our last commit left, and no commit of ours came
    since. Those that a run of ours changed that died are set back, too: it has to begin again."""
    left = head.snapshot_id
    if left is None or not only_foreign_since(table, left):
        return False
    return has_other_columns(table, head, exactly=layer == "raw")


def only_foreign_since(table: Table, left: int) -> bool:
    """Whether main came to what it shows from this version by commits of others alone."""
    for snapshot in _without_branches(table):
        if snapshot.snapshot_id == left:
            return True
        if _is_ours(snapshot):
            return False
    return False


def find_foreign(table: Table) -> int | None:
    """The newest version in a table's history that others wrote and that changed rows; None where
    none did."""
    written = (
        one.snapshot_id
        for one in _without_branches(table)
        if not (_is_ours(one) or _keeps_rows(table, one, leased=False))
    )
    return next(written, None)


def is_anothers(ledger: Ledger, identifier: Identifier, table: Table) -> bool:
    """Whether a table has rows, and nothing says that a commit of ours wrote any: it stands in the
    place of something of ours."""
    if table.current_snapshot() is None or has_our_commits(table):
        return False
    uuid = str(table.metadata.table_uuid)
    return not any(h.name == identifier.path and h.uuid == uuid for h in ledger.lake_heads())


def has_our_commits(table: Table) -> bool:
    """Whether a table has a version that a commit of ours left."""
    return any(_is_ours(one) for one in table.snapshots())


def _was_elsewhere(ledger: Ledger, contract: Recorded) -> bool:
    """Whether the newest load went to a raw table in another namespace."""
    if not isinstance(contract, TableContract):
        return False
    receipt = ledger.newest_receipt(contract.name)
    said = receipt.meaning if receipt is not None else None
    return said is not None and said.get("raw", contract.namespaces.raw) != contract.namespaces.raw


def _unrecorded(
    ledger: Ledger, contract: Recorded, layer: str, identifier: Identifier, table: Table | None
) -> How | None:
    """How a lake table is not as the ledger of an older release says, which recorded loads and
    folds; None where nothing speaks against it."""
    if not isinstance(contract, TableContract) or contract.landed:
        return None  # their folds, states and records say which versions they are of
    if layer != "raw":
        return "gone" if table is None and ledger.folded_loads(contract.name, layer) else None
    loads = ledger.successful_loads(contract.name, ever=True)
    ids = [one.snapshot_id for one in loads if one.raw_table == identifier.name]
    newest = next((number for number in reversed(ids) if number is not None), None)
    if newest is None:
        return None
    if table is None:
        return "gone"
    shown = history(table)
    if newest in {one.snapshot_id for one in shown}:
        return None
    expired = bool(shown) and shown[-1].parent_snapshot_id is not None
    return None if expired else "set back"


def _without_branches(table: Table) -> Iterator[Snapshot]:
    """A table's history, of each branch of ours that was published its last commit alone."""
    base: str | None = None
    for snapshot in history(table):
        if base is None or str(snapshot.snapshot_id) == base:
            yield snapshot
            base = snapshot_property(snapshot, BASE)


def _is_ours(snapshot: Snapshot) -> bool:
    properties = snapshot.summary.additional_properties if snapshot.summary else {}
    return any(name.startswith(_OURS) for name in properties)


def _keeps_rows(table: Table, snapshot: Snapshot, *, leased: bool) -> bool:
    """Whether a commit wrote files again and changed no row, or changed no file at all."""
    if snapshot.parent_snapshot_id is None:
        return False
    if not _changes_files(snapshot):
        return True
    if not is_rewrite(snapshot):
        return False
    before = table.snapshot_by_id(snapshot.parent_snapshot_id)
    try:
        if leased or before is None:
            return leased
        rows = count_by_manifests(table, before)
        return rows is not None and rows == count_by_manifests(table, snapshot)
    except FileNotFoundError:
        return False


def _changes_files(snapshot: Snapshot) -> bool:
    return any(int(snapshot_property(snapshot, name) or 0) for name in _CHANGES)
