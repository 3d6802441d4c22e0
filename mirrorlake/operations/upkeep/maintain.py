"""Maintenance of a contract's lake tables: small files are taken together, what expired goes.

All of it happens under the table's lease. Never removed is what a reader may still read (a minimum
age), what a branch, a tag or a clone names, what a kept version's state names, and what a load that
is not settled, or can be resumed, may need. Raw tables are not compacted: a reload takes the
files of small windows out by name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from mirrorlake.capabilities import Seam
from mirrorlake.config import TableContract
from mirrorlake.config.contract import Mirrored, TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import statistics_of
from mirrorlake.destinations.iceberg.commits.older_versions import (
    expire_versions,
    older_versions,
    remove_older_files,
)
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.procedures import rewrite_position_deletes
from mirrorlake.destinations.iceberg.storage.folder_metadata import refuse_unknown_metadata
from mirrorlake.errors import LakeError, MachineError
from mirrorlake.failpoints import failpoint
from mirrorlake.load.copies.copies import kept_indexes
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.load.protocol.resume import files_of
from mirrorlake.merge.compaction import compact
from mirrorlake.merge.staging import BRANCH, on_our_clock
from mirrorlake.operations.loading.unchanged import stamp_kept
from mirrorlake.operations.other_writers.moved_layers import refuse_removal
from mirrorlake.operations.upkeep.orphans import (
    GRACE,
    Orphan,
    OrphanTerms,
    find_orphans,
    loaded_files,
    refuse_short_grace,
    remove_orphans,
)
from mirrorlake.operations.upkeep.tenants import drop_old_copies
from mirrorlake.serving.streamed import held_versions
from mirrorlake.serving.versions import versions_table
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

KEEP = timedelta(days=7)
"""How old a version is before it expires: no reader is on it any more."""
RETAIN = 20
"""Versions of each table that stay, however old."""


@dataclass(frozen=True)
class Size:
    """What a lake table's main names: files, bytes, and how many versions there are."""

    data_files: int
    delete_files: int
    bytes: int
    versions: int


@dataclass(frozen=True)
class Maintained:
    """What maintenance did to one lake table.

    Attributes:
        layer: ``raw``, ``versions`` (the table of all schema versions), ``deduped``, ``clean``,
            ``side``, ``model``, or ``landing``, whose versions are snapshots.
        orphans, orphan_bytes: files that no version named, removed.
        planned: of a dry run, the files that would be removed.
        error: why a step of it failed; the rows are as they were.
    """

    table: str
    layer: str
    before: Size
    after: Size
    orphans: int
    orphan_bytes: int
    error: str | None = None
    planned: tuple[Orphan, ...] = ()


@dataclass(frozen=True)
class Ages:
    """How old what goes must be.

    Attributes:
        dry_run: orphans are listed, and nothing is changed.
    """

    keep: timedelta = KEEP
    grace: timedelta = GRACE
    dry_run: bool = False

    def orphans(self) -> OrphanTerms:
        """Files are orphans that are older than the grace now."""
        return OrphanTerms(datetime.now(UTC) - self.grace)


class ModeUpkeep(Protocol):
    """What else the tables of a mode have that a capability adds."""

    def side_tables(self, contract: TableContract) -> Iterator[Identifier]:
        """Lake tables beside its rows; each version of the rows names versions of these."""
        ...

    def side_versions(self, lake: Lake, side: Identifier) -> Collection[int]:
        """The versions of a side table that the kept versions of the rows name."""
        ...

    def remove_files(self, lake: Lake, table: LakeTable, before: datetime) -> list[int]:
        """Remove files beside a lake table that belong to versions that are gone; their sizes."""
        ...

    def expire(self, workspace: Workspace, contract: TableContract) -> Iterator[Maintained]:
        """Remove what was loaded and is past its time where it came from."""
        ...


OF_MODES: Seam[ModeUpkeep] = Seam("maintain")
"""By the mode's name."""


def maintain_table(
    workspace: Workspace, contract: Mirrored, ages: Ages | None = None, *, wait: bool = True
) -> list[Maintained]:
    """Compact, expire and clean up all lake tables of one contract; of tenants, take the files of
    old copies out of raw first.

    A step that fails leaves its table as it was, is reported in ``error``, and does not stop the
    others.

    Args:
        wait: whether a run that holds the table is waited for a while.

    Raises:
        ConfigError: the grace is too short for a lake that a Connect server writes.
        LeaseHeld: a live run holds the table.
        LakeError: the catalog can't be read.
    """
    ages = ages or Ages()
    refuse_short_grace(workspace.config, ages.grace)
    with workspace.leased(contract, wait=wait) as leased:
        refuse_removal(leased, contract)
        terms = ages.orphans()
        held = held_versions(workspace.lake, contract)
        if not contract.landed:
            if not ages.dry_run:
                settle_loads(leased, contract)
            kept = files_of(workspace.ledger.chunked_load(contract.name))
            indexes = kept_indexes(workspace.ledger, contract.name)
            terms = replace(terms, kept=kept, indexes=indexes)
        found: list[Maintained] = []
        # Other versions of the same rows: an unchanged table stays one.
        with stamp_kept(workspace.config, workspace.ledger, contract):
            for identifier, layer in list_tables(workspace, contract):
                if workspace.lake.load(identifier) is not None:
                    leased.check_lease()
                    loaded = {}
                    if layer == "raw" and isinstance(contract, TenantTable):
                        if not ages.dry_run:
                            drop_old_copies(leased, contract, identifier)
                    elif layer == "raw":
                        loaded = loaded_files(workspace.ledger, contract, identifier.name)
                    of_layer = replace(terms, loaded=loaded, layer=layer)
                    parts = (workspace, identifier, layer, ages, of_layer, held)
                    found.append(maintain_lake_table(*parts))
        if ages.dry_run or isinstance(contract, TenantTable):
            return found
        if contract.mode in OF_MODES.added:
            found += OF_MODES.added[contract.mode].expire(workspace, contract)
        return found


def list_tables(workspace: Workspace, contract: Mirrored) -> Iterator[tuple[Identifier, str]]:
    """The lake tables that a contract may have, with their layers: rows before what is beside
    them."""
    spaces = contract.namespaces
    if not contract.landed:
        for version in workspace.ledger.schema_versions(contract.name):
            yield Identifier(spaces.raw, version.raw_table), "raw"
        if (versions := versions_table(workspace.lake, contract)) is not None:
            yield versions, "versions"
    yield Identifier(spaces.deduped, contract.table), "deduped"
    yield Identifier(spaces.clean, contract.table), "clean"
    if isinstance(contract, TableContract) and contract.mode in OF_MODES.added:
        for identifier in OF_MODES.added[contract.mode].side_tables(contract):
            yield identifier, "side"


def maintain_lake_table(
    workspace: Workspace,
    identifier: Identifier,
    layer: str,
    ages: Ages,
    terms: OrphanTerms | None = None,
    held: frozenset[int] = frozenset(),
) -> Maintained:
    """Compact one lake table (not raw), expire its old versions and remove its orphans; what failed
    is in ``error``.

    Args:
        terms: which files are orphans; by default all old ones that no version names.
        held: versions that a view is held at: of a table that has one, nothing expires until its
            next fold.
    """
    terms = terms or ages.orphans()
    if ages.dry_run:
        return _planned(workspace.lake, identifier, layer, terms)
    lake, orphans, error = workspace.lake, list[int](), None
    before = _size(lake, identifier)
    try:
        table = _unshared(lake, identifier)
        with lake.translated(identifier):
            beside = refuse_unknown_metadata(table)  # what expires goes, too
        if on_our_clock(lake, identifier, table):
            table = table.refresh()
        _drop_branches(lake, table)
        error = _compact(workspace, table, identifier) if layer != "raw" else None
        failpoint("maintain.compacted")
        if held.isdisjoint(one.snapshot_id for one in table.snapshots()):
            _expire(lake, identifier, layer, ages)
        failpoint("maintain.expired")
        table = table.refresh()
        # What has expired just now may be an orphan at once, where there is no grace.
        terms = replace(terms, before=ages.orphans().before)
        orphans = remove_orphans(lake, table, terms)
        for of_mode in OF_MODES if beside is None else ():
            orphans += of_mode.remove_files(lake, table, terms.before)
    except LakeError as failed:
        logger.warning("table %s was not maintained: %s", identifier, failed)
        error = str(failed)
    after = _size(lake, identifier)
    return Maintained(str(identifier), layer, before, after, len(orphans), sum(orphans), error)


def _planned(lake: Lake, identifier: Identifier, layer: str, terms: OrphanTerms) -> Maintained:
    """The orphans that a lake table has now. What expires leaves others."""
    size = _size(lake, identifier)
    files, error = list[Orphan](), None
    try:
        files = find_orphans(lake, _unshared(lake, identifier), terms)
    except LakeError as failed:
        error = str(failed)
    found = (len(files), sum(file.bytes for file in files), error, tuple(files))
    return Maintained(str(identifier), layer, size, size, *found)


def _drop_branches(lake: Lake, table: LakeTable) -> None:
    """Those that dead folds left: the lease is ours, so no fold is alive."""
    for name in [name for name in table.metadata.refs if name.startswith(BRANCH)]:
        with lake.translated(".".join(table.name())):
            table.manage_snapshots().remove_branch(name).commit()
        table.refresh()


def _compact(workspace: Workspace, table: LakeTable, identifier: Identifier) -> str | None:
    """Compact a table, if there is anything to compact; why that can't be, where Spark or Java is
    not there. All else that maintenance does needs neither."""
    spark = workspace.spark.get
    try:
        if compact(spark, workspace.lake, table, identifier):
            with spark_errors(str(identifier)):
                rewrite_position_deletes(spark(), identifier)
    except MachineError as missing:
        logger.warning("table %s was not compacted: %s", identifier, missing)
        return str(missing)
    return None


def _expire(lake: Lake, identifier: Identifier, layer: str, ages: Ages) -> None:
    """Versions that are older than ``keep`` and not among the newest `RETAIN`, with the files that
    no other one names."""
    older = datetime.now(UTC) - ages.keep
    table = lake.catalog.load_table(identifier.path)
    if layer == "side":
        named = {one for of_mode in OF_MODES for one in of_mode.side_versions(lake, identifier)}
        gone = older_versions(table, older, 1) - named
    else:
        gone = older_versions(table, older, RETAIN)
    if not gone:
        return
    expire_versions(lake, identifier, gone)
    remove_older_files(lake, identifier, table.metadata_location)


def _size(lake: Lake, identifier: Identifier) -> Size:
    table = lake.load(identifier)
    snapshot = table.current_snapshot() if table else None
    if table is None or snapshot is None:
        return Size(0, 0, 0, 0)
    counted = statistics_of(snapshot)
    versions = len(table.snapshots())
    return Size(counted.data_files, counted.delete_files, counted.bytes, versions)


def _unshared(lake: Lake, identifier: Identifier) -> LakeTable:
    table = lake.catalog.load_table(identifier.path)
    if table.properties.get("gc.enabled") == "false":
        raise LakeError(
            f"lake table {identifier} shares its files with another (gc.enabled is false)",
            table=str(identifier),
            next_step="A clone is not maintained: drop it when it is no longer used",
        )
    return table
