"""Refold: deduped and clean of a table made again from raw, whatever they hold or can't show.

Raw is what is kept; deduped equals a fold of all its loads. A layer is written beside, where no
reader sees it, and then shown in one step:

- Where the catalog can read the table, on a branch that begins with nothing, so that no manifest
  and no file of main is read. Main is then set to it: readers see what was there until that moment.
- Where its metadata can't be read at all (or there is no table), as a table of another name in the
  same place, which then takes the name over.

A run that dies leaves a branch or a table that nobody reads, or a layer that is new already; the
next refold begins again. What no version names any more is removed by maintenance.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from shlex import quote

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.commits.older_versions import expire_versions
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.cost import written_since
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.destinations.iceberg.tables.integrity import (
    Damage,
    damage_errors,
    find_damage,
    find_unreadable,
)
from mirrorlake.destinations.iceberg.tables.name_swap import take_name
from mirrorlake.destinations.iceberg.tables.tables import drop_column
from mirrorlake.errors import ConfigError, LakeDamaged, SchemaError
from mirrorlake.failpoints import failpoint
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.load.raw.raw_files import refuse_damaged
from mirrorlake.merge.fold import ensure_layer
from mirrorlake.merge.fold_plan import Todo, plan_fold
from mirrorlake.merge.overwrite import OverwriteTarget, overwrite, replace_layer
from mirrorlake.merge.reshape import next_layer, record_as_made, reshape_layer
from mirrorlake.merge.statements import Layer, deduped_layer
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.other_writers.moved_layers import (
    accept_made,
    refuse_moved,
    refuse_unread,
)
from mirrorlake.runtime.extras import require
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.serving.next_tables import (
    NEXT_TABLE,
    is_clean_as_ruled,
    renew_clean_table,
    show_clean_table,
)
from mirrorlake.serving.streamed import hold_reshaped, keep_streamed
from mirrorlake.serving.versions import (
    fill_versions_table,
    forget_unreadable_versions,
    show_raw_view,
)
from mirrorlake.serving.views import forget_broken_view, hold_clean_view, make_clean_view
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.continuity import meaning_of_plan
from mirrorlake.table.meaning import meaning_of, refuse_changed
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

_BESIDE = "__refold_"


@dataclass(frozen=True)
class Remade:
    """What became of one layer.

    Attributes:
        layer: ``deduped`` or ``clean``. table: its name in the lake.
        damage: the first file of it that could not be read, and why; None where all could.
        way: ``main`` (main was set to what was written), ``table`` (a new table took the name
            over), or ``view``.
        snapshot_id, rows: what it shows now; None of a view.
    """

    layer: str
    table: str
    damage: str | None
    way: str
    snapshot_id: int | None
    rows: int | None


@dataclass(frozen=True)
class Refolded:
    """What a refold did. ``load_id`` is in the new snapshots' summaries; ``loads`` are in them.

    ``unread``: loads that recorded no checksums of their files, which were folded as they are.

    Attributes:
        table: ``source.db.table``.
        load_id: in the summary of each new Iceberg snapshot, as ``mirrorlake.load-id``.
        loads: how many loads were folded.
        layers: ``deduped`` and ``clean``, each with the fields below.
        seconds: how long it took.
        unread: loads that recorded no checksums of their files, and were folded unread: see clean
            and raw.
    """

    table: str
    load_id: str
    loads: int
    layers: tuple[Remade, ...]
    seconds: float
    unread: int = 0


def refold_table(
    workspace: Workspace, contract: TableContract, *, any_hash_key: bool = False
) -> Refolded:
    """Make deduped and clean of a table again from raw, each in one step; whatever they hold.

    Args:
        any_hash_key: whether clean may have been hashed under another key: for who rewrites it.

    Raises:
        ConfigError: raw holds no rows of this table: it is kept by snapshots, or was never loaded.
        SchemaError: the table's columns changed since the load: sync it first.
        LakeDamaged: raw can't be read; nothing was changed.
        MachineError: Spark, which folds again, is not installed; nothing was changed.
        MirrorlakeError: see planning and folding.
    """
    started = time.monotonic()
    _refuse_refold(contract)
    require("pyspark", "spark", f"table {contract.name}: folding again")
    with session(workspace.config.sources[contract.source], contract.database) as connection:
        plan = resolve_table(workspace, contract, connection, any_hash_key=any_hash_key)
    with workspace.leased(contract) as leased:
        refuse_moved(leased, contract, "raw")
        refuse_unread(workspace.ledger, contract)
        settle_loads(leased, contract)
        todo = plan_fold(plan, set(), True, workspace.ledger)
        if not todo.loads:
            raise ConfigError(
                f"table {plan.name}: no load of it succeeded, so raw holds no rows to fold again",
                table=plan.name,
                next_step="Sync it first",
            )
        refuse_new_version(workspace, plan)
        with damage_errors(workspace.lake, workspace.ledger, contract, of_raw_alone=True):
            # Before anything is written: what rotted in raw must not become deduped.
            parts = (workspace.lake, workspace.ledger, contract)
            unread = refuse_damaged(*parts, todo.loads, set())
            done = replace(_Refold(leased, plan, todo).run(started), unread=unread)
            accept_made(leased, contract, ())
            return done


def _refuse_refold(contract: TableContract) -> None:
    """See that a table's layers are made of raw at all.

    Raises:
        ConfigError: they are made of snapshots that landed.
    """
    if contract.landed:
        raise ConfigError(
            f"table {contract.name} is kept by snapshots: raw holds no rows of it to fold again",
            table=contract.name,
            next_step="Rename its lake table (one that is dropped is registered again), then "
            f"`mirrorlake land {quote(contract.name)}`: its snapshots are folded again from "
            "their files",
        )


def refuse_new_version(workspace: Workspace, plan: ResolvedTable) -> None:
    """See that what was loaded has the columns that MySQL has now, and means what the contract
    says now.

    Raises:
        SchemaError: it has others, or means something else.
    """
    receipt = workspace.ledger.newest_receipt(plan.name)
    refuse_changed(receipt, plan.name, meaning_of(plan.contract, plan.source, plan.table))
    versions = workspace.ledger.schema_versions(plan.name)
    if not versions or versions[-1] != plan.version:
        raise SchemaError(
            f"table {plan.name}: MySQL, or its contract, has other columns than were loaded",
            table=plan.name,
            next_step="Sync it first: a new version's first load reads every row",
        )
    # An older release may have told the same columns' keys apart by other bytes.
    refuse_changed(receipt, plan.name, meaning_of_plan(plan))


def drop_beside(lake: Lake, identifier: Identifier) -> int:
    """Take tables that dead runs left beside a layer out of the catalog; how many. Their files
    lie in the layer's own folder, and go as orphans. The caller holds the table's lease."""
    name = re.escape(identifier.name)
    named = re.compile(f"{name}(?:{_BESIDE}[0-9a-f]{{32}}|{NEXT_TABLE})")
    with lake.translated(identifier):
        if not lake.catalog.namespace_exists((identifier.namespace,)):
            return 0
        paths = lake.catalog.list_tables((identifier.namespace,))
        found = [path for path in paths if named.fullmatch(path[-1])]
    for path in found:
        lake.drop(Identifier(*path))
    return len(found)


class _Refold:
    """One refold of a table, under its lease."""

    def __init__(self, workspace: Workspace, plan: ResolvedTable, todo: Todo) -> None:
        self._workspace, self._plan, self._todo = workspace, plan, todo
        self._lake, self._load_id = workspace.lake, uuid.uuid4().hex

    def run(self, started: float) -> Refolded:
        workspace, plan = self._workspace, self._plan
        with suppress(LakeDamaged):  # what can't be read can't be shown meanwhile
            hold_clean_view(workspace, plan)
        with suppress(LakeDamaged):
            hold_reshaped(workspace, plan)
        deduped = self._remake(deduped_layer(plan))
        layers = (deduped, self._remake_clean(is_new=deduped.way == "table"))
        keep_streamed(workspace, plan)
        self._show_raw()
        return Refolded(
            table=plan.name,
            load_id=self._load_id,
            loads=len(self._todo.loads),
            layers=layers,
            seconds=round(time.monotonic() - started, 3),
        )

    def _show_raw(self) -> None:
        workspace, plan = self._workspace, self._plan
        if plan.contract.versions == "view":
            forget_broken_view(workspace, plan.raw_view)
        forget_unreadable_versions(workspace, plan)
        show_raw_view(workspace, plan)
        fill_versions_table(workspace, plan, set(), again=True)

    def _remake(self, layer: Layer) -> Remade:
        damage = find_damage(self._lake, layer.identifier)
        drop_beside(self._lake, layer.identifier)
        try:
            there = self._lake.load(layer.identifier) is not None
        except LakeDamaged:
            there = False
        if there:
            self._replace_main(layer)
        else:
            self._replace_table(layer)
        way = "main" if there else "table"
        logger.info("table %s: %s made again (%s)", self._plan.name, layer.name, way)
        return self._summary(layer, damage, way)

    def _remake_clean(self, *, is_new: bool) -> Remade:
        workspace, plan = self._workspace, self._plan
        damage = find_damage(self._lake, plan.clean)
        ruled = damage is None or is_clean_as_ruled(workspace, plan)
        # Purging it would read what can't be read.
        if not ruled and self._lake.drop(plan.clean):
            logger.warning(
                "table %s: the old files of %s stay until maintenance removes them: they may hold "
                "what its rules take away now",
                *(plan.name, plan.clean),
            )
        forget_broken_view(workspace, plan.clean)
        if plan.contract.clean == "table":
            layer = renew_clean_table(workspace, plan)
            made = self._remake(layer)
            show_clean_table(workspace, plan, layer)
            found = str(damage) if damage else None
            return replace(made, table=str(plan.clean), damage=found)
        make_clean_view(workspace, plan, is_new=is_new)
        found = str(damage) if damage else None
        return Remade("clean", str(plan.clean), found, "view", None, None)

    def _replace_main(self, layer: Layer) -> None:
        """Write a branch that begins with nothing, and set main to it."""
        lake, identifier = self._lake, layer.identifier
        retyped = reshape_layer(self._workspace, self._plan, layer)
        ensure_layer(self._workspace, self._plan, next_layer(layer, retyped))
        if not layer.flags:
            drop_column(lake, identifier, DELETED_AT)
        head = lake.head(identifier)
        parts = (self._workspace, self._plan, layer, self._todo, retyped)
        scan = replace_layer(*parts, ((LOAD_ID, self._load_id),))
        self._record(layer, scan.bytes, head)
        self._forget_unreadable(identifier)

    def _replace_table(self, layer: Layer) -> None:
        """Write a table of another name in the layer's place, and give it the layer's name."""
        lake, identifier = self._lake, layer.identifier
        name = f"{identifier.name}{_BESIDE}{self._load_id}"
        beside = replace(layer, identifier=Identifier(identifier.namespace, name))
        ensure_layer(self._workspace, self._plan, beside, lake.location(identifier))
        failpoint("refold.begun")
        scanned = self._write(beside, beside.identifier.sql, None)
        flush_commits(lake.load(beside.identifier), None)
        self._workspace.check_lease()
        failpoint("refold.beside")
        take_name(lake, beside.identifier, identifier)
        failpoint("refold.shown")
        self._record(layer, scanned, None)

    def _write(self, layer: Layer, name: str, start: int | None) -> int | None:
        target = OverwriteTarget(name, start, ((LOAD_ID, self._load_id),))
        scan = overwrite(self._workspace, self._plan, layer, self._todo, target)
        failpoint("refold.written")
        return scan.bytes

    def _record(self, layer: Layer, scanned: int | None, head: int | None) -> None:
        ledger, plan = self._workspace.ledger, self._plan
        run_id = self._workspace.run_id
        ledger.together(
            lambda: ledger.record_folds(plan.name, layer.name, self._todo.held, run_id),
            self._workspace.left(plan.name, layer.name, layer.identifier),
            lambda: record_as_made(self._workspace, plan, layer),
        )
        seq = max(load.seq for load in self._todo.loads)
        written = written_since(self._lake.load(layer.identifier), head)
        ledger.record_cost(plan.name, layer.name, seq, scanned, written)

    def _forget_unreadable(self, identifier: Identifier) -> None:
        """Take versions that can't be read out of the table's metadata: maintenance reads them
        all, and would fail for good. The files stay, as orphans."""
        table = self._lake.load(identifier)
        if table is None:
            return
        with self._lake.translated(identifier):
            named = {ref.snapshot_id for ref in table.metadata.refs.values()}
            ids = find_unreadable(table)
        expire_versions(self._lake, identifier, set(ids) - named)
        if kept := sorted(set(ids) & named):
            logger.warning("table %s: versions %s can't be read, and are named", identifier, kept)

    def _summary(self, layer: Layer, damage: Damage | None, way: str) -> Remade:
        counted = self._lake.statistics(layer.identifier)
        return Remade(
            layer=layer.name,
            table=str(layer.identifier),
            damage=str(damage) if damage else None,
            way=way,
            snapshot_id=self._lake.head(layer.identifier),
            rows=counted.rows if counted is not None else None,
        )
