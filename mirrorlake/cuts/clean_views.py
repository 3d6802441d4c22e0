"""Clean views of the newest cut: today's rules over deduped as the cut has it.

Who rewrites a table's clean view rewrites this one just before (`CleanAtCut`): no value is seen in
it that clean does not show any more. What another version needs is dropped before clones move to
it, and made after.

What belongs here: when they are made, and go. What doesn't: what one says
(`mirrorlake.serving.clean_at_version`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mirrorlake.config import Config, TableContract
from mirrorlake.cuts.config import AT_CUT
from mirrorlake.cuts.ledger import Cut, CutTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema
from mirrorlake.destinations.iceberg.tables.views import LakeView
from mirrorlake.errors import LakeError, MirrorlakeError
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


def clean_of_version(
    lake: Lake, ledger: Ledger, contract: TableContract, then: LakeSchema, over: str
) -> ViewText | None:
    """What clean shows of a version by the rules of now; None where it would show no column.

    Args:
        then: deduped's columns in it.
        over: the version, in SQL.

    Raises:
        LakeError: deduped is not there, or the catalog or the storage failed.
    """
    deduped = lake.load(deduped_of(contract))
    if deduped is None:
        raise LakeError(
            f"lake table {deduped_of(contract)} is not there",
            table=contract.name,
            next_step="Sync it first",
        )
    held = held_now(ledger, lake, contract)
    return clean_at(contract, deduped.schema(), then, held, over)


def columns_at(lake: Lake, one: CutTable) -> LakeSchema | None:
    """The columns that a table had at a cut; None where the version is gone."""
    table = lake.load(one.identifier)
    if table is None:
        return None
    if one.snapshot_id is None:
        return table.schema()
    snapshot = table.snapshot_by_id(one.snapshot_id)
    if snapshot is None:
        return None
    return table.schemas()[snapshot.schema_id] if snapshot.schema_id is not None else table.schema()


def view_of(contract: TableContract) -> Identifier:
    """The view that shows a table's clean at the newest cut."""
    name = clean_of(contract)
    return Identifier(f"{name.namespace}{AT_CUT}", name.name)


class CleanAtCut:
    """The views of the newest cut as what follows clean."""

    def renew(self, workspace: Workspace, contract: TableContract) -> None:
        """See `mirrorlake.serving.views.CleanFollower`."""
        view = view_of(contract)
        if look_at_view(workspace.lake, view) is None:
            return
        clone = workspace.lake.load(_clone_of(contract))
        wanted = None
        if clone is not None:
            parts = (workspace.lake, workspace.ledger, contract)
            wanted = clean_of_version(*parts, clone.schema(), _clone_of(contract).sql)
        if wanted is None:
            drop_view(workspace, view)
        else:
            make_view(workspace, view, wanted)
        failpoint("cut.clean_renewed")

    def drop(self, workspace: Workspace, contract: TableContract) -> None:
        """See `mirrorlake.serving.views.CleanFollower`."""
        drop_view(workspace, view_of(contract))


FOLLOWER: Final = CleanAtCut()


def _clone_of(contract: TableContract) -> Identifier:
    name = deduped_of(contract)
    return Identifier(f"{name.namespace}{AT_CUT}", name.name)


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
            then = columns_at(lake, one)
            if then is not None:
                parts = (lake, self.workspace.ledger, contract)
                text = clean_of_version(*parts, then, _clone_of(contract).sql)
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
        for contract in self.workspace.config.tables:
            if contract.source == self.cut.source and not self._is_right(contract):
                drop_view(self.workspace, view_of(contract))

    def _is_right(self, contract: TableContract) -> bool:
        there = look_at_view(self.workspace.lake, view_of(contract))
        if there is None:
            return True
        wanted = self._wanted.get(contract.name)
        return wanted is not None and isinstance(there, LakeView) and there.sql == wanted.sql

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
            raise LakeError(f"clean of it shows no column at cut {self.cut.name}")
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
    return found
