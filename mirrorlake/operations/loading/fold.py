"""Folding a table: raw is shown, deduped and clean are brought up to every load.

What belongs here: the order of the layers. What doesn't: how one layer is folded
(`mirrorlake.merge.fold`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.tables.integrity import damage_errors
from mirrorlake.errors import MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.merge.fold import fold_into_new, fold_layer
from mirrorlake.merge.staging import StagedLayers
from mirrorlake.merge.statements import Layer, check_rules, deduped_layer
from mirrorlake.operations.loading.resolve import refuse_unloaded, resolve_table
from mirrorlake.operations.other_writers.moved_layers import accept_made, put_right, refuse_unread
from mirrorlake.operations.schema_changes.recorded_contracts import is_recorded, record_contract
from mirrorlake.serving.next_tables import (
    begin_layer,
    is_free,
    renew_clean_table,
    show_clean_table,
    show_layer,
)
from mirrorlake.serving.streamed import hold_reshaped, keep_streamed
from mirrorlake.serving.versions import fill_versions_table, show_raw_view
from mirrorlake.serving.views import hold_clean_view, make_clean_view
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.continuity import kept_words
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.surplus import note_surplus, read_whole
from mirrorlake.workspace import Workspace

Then: TypeAlias = "Callable[[Workspace, Connection[Any], ResolvedTable], None]"
"""What is done with a folded table while its lease is held."""


def fold_table(workspace: Workspace, contract: TableContract, then: Then | None = None) -> int:
    """Fold every load that deduped and clean don't hold yet; how many there were.

    Raises:
        MirrorlakeError: see `resolve_table` and `fold_layers`.
    """
    source = workspace.config.sources[contract.source]
    with session(source, contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
        with workspace.leased(contract) as leased:
            repaired = put_right(leased, contract, plan.key) if leased.moved else []
            settle_loads(leased, contract)
            refuse_unloaded(leased, plan)
            folded = len(fold_layers(leased, plan))
            accept_made(leased, contract, repaired)
            if then is not None:
                then(leased, connection, plan)
            return folded


def fold_layers(workspace: Workspace, plan: ResolvedTable) -> tuple[int, ...]:
    """Bring deduped and clean up to every successful load; the sequence numbers of the loads that
    deduped did not hold before.

    The workspace holds the table's lease. Nothing to do costs no Spark.

    Raises:
        LakeDamaged: a file that a layer names can't be read;
            `mirrorlake.operations.repairing.refold` makes the layer again.
        LakeError: Spark, the catalog or the storage failed; each layer is as it was, or folded.
        LeaseHeld: another run took the table over; this one writes nothing more.
        ConfigError: a column is to be hashed whose text MySQL and we might write differently.
    """
    fold = TableFold(workspace, plan)
    fold.write()
    return fold.finish()


class TableFold:
    """One table's fold: `write`, then `finish`, once readers see what was written.

    Attributes:
        staged: what `write` left on branches, for somebody to show it, and to record what it says,
            before `finish`. None: readers see each layer as soon as it is written.

    Args:
        workspace: with the table's lease, until `finish` is done.
        apart: whether what is written waits for that. A layer that is not there yet is made, and
            seen, by itself.
    """

    def __init__(self, workspace: Workspace, plan: ResolvedTable, *, apart: bool = False) -> None:
        self._workspace, self._plan = workspace, plan
        self.staged = StagedLayers() if apart else None
        self._seqs: tuple[int, ...] = ()
        self._counted: tuple[str, int] | None = None
        self._clean: Layer | None = None
        self._compared: set[str] = set()
        self._is_new = False

    def write(self) -> None:
        """Write what the layers lack.

        Raises:
            MirrorlakeError: as `fold_layers`.
        """
        workspace, plan = self._workspace, self._plan
        check_rules(plan, workspace.config.privacy.hash_key)
        refuse_unread(workspace.ledger, plan.contract)
        with damage_errors(workspace.lake, workspace.ledger, plan.contract):
            show_raw_view(workspace, plan)
            hold_reshaped(workspace, plan)
            hold_clean_view(workspace, plan)
            self._write_deduped()
            if self.staged is None:
                self._count()
            if plan.contract.clean == "table":
                self._clean = renew_clean_table(workspace, plan)
                # One that has not its name yet is not seen: it takes it when it is whole.
                new = self._clean.identifier != plan.clean
                staged = None if new else self.staged
                fold_layer(workspace, plan, self._clean, self._compared, staged)

    def finish(self) -> tuple[int, ...]:
        """Have all else that readers see, and the ledger, say the same as the layers; the numbers
        of the loads that deduped did not hold before.

        Raises:
            MirrorlakeError: as `fold_layers`.
        """
        workspace, plan = self._workspace, self._plan
        with damage_errors(workspace.lake, workspace.ledger, plan.contract):
            if self.staged is not None:
                for act in self.staged.after:
                    act()
                self._count()
            if self._clean is not None:
                show_clean_table(workspace, plan, self._clean)
            else:
                make_clean_view(workspace, plan, is_new=self._is_new)
            keep_streamed(workspace, plan)
            fill_versions_table(workspace, plan, self._compared)
        failpoint("clean.committed")
        ledger, contract = workspace.ledger, plan.contract
        if self._counted is not None:
            workspace.record_last(partial(ledger.record_counts, {plan.name: self._counted}))
        if not is_recorded(ledger, contract):
            workspace.record_last(partial(record_contract, ledger, contract))
        return self._seqs

    def abandon(self) -> None:
        """Drop what was written and is not to be shown."""
        for one in self.staged.versions if self.staged is not None else ():
            with suppress(MirrorlakeError):  # the next fold does it
                self._workspace.check_lease()
                self._workspace.lake.drop_branch(one.identifier, one.branch)

    def _write_deduped(self) -> None:
        workspace, plan, layer = self._workspace, self._plan, deduped_layer(self._plan)
        if is_free(workspace, plan.deduped):
            seqs = fold_into_new(workspace, plan, layer, self._compared)
            if seqs is not None:
                self._seqs, self._is_new = seqs, True
                return
        layer = begin_layer(workspace, plan, layer)
        self._is_new = new = layer.identifier != plan.deduped
        parts = (workspace, plan, layer, self._compared, None if new else self.staged)
        self._seqs = fold_layer(*parts)
        show_layer(workspace, plan, layer, plan.deduped)

    def _count(self) -> None:
        """Count deduped while the table is at hand: `status` would have to open it."""
        workspace, plan = self._workspace, self._plan
        self._counted = workspace.lake.counted(plan.deduped) if self._seqs else None
        if self._counted is not None:
            _note_surplus(workspace, plan, self._seqs, self._counted[1])


def _note_surplus(
    workspace: Workspace, plan: ResolvedTable, folded: Collection[int], rows: int
) -> None:
    """Write down what only the mirror has, if a read of the whole table was just folded."""
    ledger = workspace.ledger
    if loads := read_whole(ledger, plan.contract, folded):
        kept = bool(kept_words(plan.contract))
        note_surplus(ledger, plan.contract, loads, rows, kept=kept)
