"""Clean views of the newest cut: today's rules over deduped as the cut has it.

Who rewrites a table's clean view rewrites this one just before (`CleanAtCut`): no value is seen in
it that clean does not show any more. What another version needs is dropped before clones move to
it, and made after.

What belongs here: when they are made, and go. What doesn't: what one says
(`mirrorlake.serving.clean_at_version`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mirrorlake.config import Config, TableContract
from mirrorlake.cuts.config import AT_CUT, shown_as
from mirrorlake.cuts.ledger import Cut, Cuts, CutTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeTable, table_at
from mirrorlake.destinations.iceberg.tables.views import LakeView
from mirrorlake.errors import LakeDamaged, LakeError, MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.serving.clean_at_version import clean_at
from mirrorlake.serving.views import (
    ViewText,
    clean_view,
    drop_view,
    find_replaced,
    look_at_view,
    make_view,
)
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.columns.new_columns import held_now
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.workspace import Workspace


def clean_of_cut(
    lake: Lake, ledger: Ledger, contract: TableContract, one: CutTable, over: str
) -> ViewText | None:
    """What clean shows of a cut's version of deduped by the rules of now; None where it would show
    no column, or deduped is not there, or is not the table that the cut has a version of: another
    table's ids say nothing of its columns.

    Args:
        over: the version, in SQL.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    deduped = lake.load(deduped_of(contract))
    if deduped is None or one.identifier != deduped_of(contract):
        return None
    then = _columns_in(deduped, one.snapshot_id)
    if then is None:
        return None
    return clean_at(contract, deduped.schema(), then, held_now(ledger, lake, contract), over)


def _columns_in(table: LakeTable, version: int | None) -> LakeSchema | None:
    """The columns of a version of a table; None where it has no such version."""
    found = table if version is None else table_at(table, version)
    return found.schema() if found is not None else None


def view_of(contract: TableContract) -> Identifier:
    """The view that shows a table's clean at the newest cut."""
    return shown_as(clean_of(contract))


class CleanAtCut:
    """The views of the newest cut as what follows clean."""

    def renew(self, workspace: Workspace, contract: TableContract) -> None:
        """See `mirrorlake.serving.views.CleanFollower`."""
        # Once for all tables of a run: it looks through every view that the ledger knows.
        if workspace.is_first(f"views left of cuts of {contract.source}"):
            _drop_left(workspace, {contract.source})
        view, lake = view_of(contract), workspace.lake
        there = look_at_view(lake, view)
        if there is None:
            return
        clone, deduped = lake.load(_clone_of(contract)), lake.load(deduped_of(contract))
        wanted = None
        if clone is not None and deduped is not None and _is_of(clone, deduped):
            held = held_now(workspace.ledger, lake, contract)
            over = _clone_of(contract).sql
            wanted = clean_at(contract, deduped.schema(), clone.schema(), held, over)
            if lost := _lost(there, clone, deduped):
                workspace.changes.append(
                    f"view {view} shows no {', '.join(lost)} any more: {_LOST}"
                )
        if wanted is None:
            drop_view(workspace, view)
            workspace.changes.append(f"view {view} is gone until the next cut: {_NOT_OF}")
        else:
            make_view(workspace, view, wanted)
        failpoint("cut.clean_renewed")

    def drop(self, workspace: Workspace, contract: TableContract) -> None:
        """See `mirrorlake.serving.views.CleanFollower`."""
        drop_view(workspace, view_of(contract))
        _drop_left(workspace, {contract.source})


FOLLOWER: Final = CleanAtCut()
_NOT_OF: Final = "its rows are no version of the table that has its name now, or no column is left"
_LOST: Final = "MySQL dropped it since the cut, or gave it a type that it can't be widened to"


def _is_of(clone: LakeTable, deduped: LakeTable) -> bool:
    """Whether ids of columns are the same ones in a clone and a table: it shows a version of that,
    as that knows it. One without any row shows nothing."""
    shown = clone.current_snapshot()
    if shown is None:
        return True
    then = _columns_in(deduped, shown.snapshot_id)
    return then is not None and then.fields == clone.schema().fields


def _lost(there: LakeView | LakeDamaged, clone: LakeTable, deduped: LakeTable) -> list[str]:
    """The columns that a view of a clone shows and can't show any more: deduped has them no more,
    so that nobody says what their rules are."""
    today = {field.field_id for field in deduped.schema().fields}
    gone = {field.name for field in clone.schema().fields if field.field_id not in today}
    shown = there.schema.fields if isinstance(there, LakeView) else ()
    return [field.name for field in shown if field.name in gone]


def _drop_left(workspace: Workspace, sources: Collection[str]) -> list[Identifier]:
    """Take away the views of newest cuts of these sources that no table of the contract makes any
    more: no rule of now holds for them. Those that went."""
    known = workspace.ledger.definitions("view ", f"{AT_CUT}.")
    if not known:
        return []  # as for nearly every clean view that is made: it asks no further
    made = {view_of(one) for one in workspace.config.tables if one.clean == "view"}
    found = {
        Identifier(*name.removeprefix("view ").split(".", 1)): sql for name, sql in known.items()
    }
    found = {view: sql for view, sql in found.items() if view not in made}
    if not found:
        return []
    others = {
        shown_as(one.identifier).sql
        for cut in Cuts(workspace.ledger).all()
        if cut.source not in sources
        for one in cut.tables
    }
    left = list[Identifier]()
    for view, sql in found.items():
        over = sql.rsplit(" FROM ", 1)[-1]
        if view.namespace.endswith(AT_CUT) and f"{AT_CUT}`." in over and over not in others:
            drop_view(workspace, view)
            left.append(view)
    return left


def _clone_of(contract: TableContract) -> Identifier:
    return shown_as(deduped_of(contract))


@dataclass(frozen=True)
class CutViews:
    """The clean views of a cut that is about to be the newest one, or is."""

    workspace: Workspace
    cut: Cut

    @cached_property
    def _wanted(self) -> dict[str, ViewText]:
        """Table → its view."""
        lake, found = self.workspace.lake, dict[str, ViewText]()
        for contract, one in self._viewed():
            parts = (lake, self.workspace.ledger, contract, one)
            text = clean_of_cut(*parts, _clone_of(contract).sql)
            found |= {contract.name: text} if text is not None else {}
        return found

    def _viewed(self) -> Iterator[tuple[TableContract, CutTable]]:
        by_name = {one.name: one for one in self.workspace.config.tables}
        for one in self.cut.tables:
            contract = by_name.get(one.table)
            if contract is not None and one.layer == "deduped" and contract.clean == "view":
                yield contract, one

    def names(self) -> set[Identifier]:
        """The views that there are to be."""
        return {view_of(contract) for contract, _ in self._viewed()}

    def withdraw(self) -> None:
        """Take away those that are not right once clones show this cut."""
        _drop_left(self.workspace, {self.cut.source})
        for contract in self.workspace.config.tables:
            if contract.source == self.cut.source and not self._is_right(contract):
                drop_view(self.workspace, view_of(contract))

    def _is_right(self, contract: TableContract) -> bool:
        lake, view = self.workspace.lake, view_of(contract)
        if look_at_view(lake, view) is None:
            return True
        wanted = self._wanted.get(contract.name)
        # By other types than the clone's it could not be read, whatever its text.
        return wanted is not None and find_replaced(lake, view, wanted) is None

    def write(self) -> dict[str, str]:
        """Make those that are not there; tables of which it could not be, and why."""
        failed = dict[str, str]()
        for contract, _ in self._viewed():
            try:
                self._write(contract)
            except MirrorlakeError as error:
                failed[contract.name] = str(error)
        return failed

    def _write(self, contract: TableContract) -> None:
        wanted = self._wanted.get(contract.name)
        if wanted is None:
            raise LakeError(
                f"clean of it shows no column at cut {self.cut.name}, or its table is another one "
                "by now"
            )
        if look_at_view(self.workspace.lake, view_of(contract)) is not None:
            return  # `withdraw` found it right, or its table's fold has written it since
        source = self.workspace.config.sources[contract.source]
        with (
            self.workspace.leased(contract) as leased,
            session(source, contract.database) as connection,
        ):
            plan = resolve_table(leased, contract, connection)
            # Another run may know newer rules: clean has them already.
            if wrong := find_replaced(leased.lake, plan.clean, clean_view(plan)):
                raise LakeError(
                    f"view {plan.clean} {wrong}",
                    table=contract.name,
                    next_step="Its sync makes it again, and the next cut shows it",
                )
            make_view(leased, view_of(contract), wanted)


def drop_views(workspace: Workspace, config: Config) -> list[str]:
    """Take the clean views of newest cuts away; the namespaces that had any."""
    found = list[str]()
    for contract in config.tables:
        if look_at_view(workspace.lake, view_of(contract)) is not None:
            drop_view(workspace, view_of(contract))
            found.append(clean_of(contract).namespace)
    left = _drop_left(workspace, config.sources)
    return [*found, *(view.namespace.removesuffix(AT_CUT) for view in left)]
