"""Layers that were made by another rule, or by other columns, than the contract and MySQL have now.

What belongs here: columns that are renamed or taken away in place, those that are written beside,
and what the ledger keeps of how a layer was made. What doesn't: columns that a layer lacks, or that
become wider (`mirrorlake.destinations.iceberg.tables.tables`), and the rows themselves
(`mirrorlake.merge.fold`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from mirrorlake.destinations.base import MAIN, Identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.destinations.iceberg.tables.schemas import can_hold, iceberg_type
from mirrorlake.destinations.iceberg.tables.tables import reshape
from mirrorlake.ledger.store import Ledger
from mirrorlake.merge.staging import StagedLayers, drop_stale, new_branch, seal
from mirrorlake.merge.statements import Layer
from mirrorlake.schema.own_columns import DELETED_AT, ORIGINAL
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class Outdated:
    """What a layer's table has otherwise than its layer.

    Attributes:
        there: all columns that the table has.
        renamed: columns that have another name now → that name.
        gone: those that MySQL has no more.
        retyped: those (as they are called now) whose values must be there as soon as they are
            shown: their type can't become the one of now, they were dropped and came back, or clean
            is to show them from now on.
        wider: those (as they are called now) whose type becomes the one of now in place.
    """

    there: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    gone: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.renamed or self.gone or self.retyped)

    @property
    def breaks_views(self) -> bool:
        """Whether a view that declares the columns of before can't be read once they changed: Spark
        takes no BIGINT for an INT."""
        return bool(self) or bool(self.wider)


def reshape_layer(workspace: Workspace, plan: ResolvedTable, layer: Layer) -> tuple[str, ...]:
    """Give a layer's columns the names that they have in MySQL now, and take away what MySQL has no
    more. Where it keeps original texts, its rows must all be written again: they name columns.

    What somebody else added to it stays: only what a version of the table had is ours to take.

    Returns:
        The columns that are to be written beside, and shown with their values: see `next_layer`.
    """
    found = find_outdated(workspace, plan, layer)
    if found and (ORIGINAL in found.there or found.retyped):
        # Before the change: who dies in between folds all again.
        reason = "its columns have other types" if found.retyped else "its originals name columns"
        if not has_new_rules(workspace, layer):
            workspace.ledger.record_definition(_reshaped(layer), reason)
    # Of a run that died: what it wrote there is on a branch that is begun again.
    left = [name for name in found.there if name.startswith(NEXT)]
    if found.renamed or found.gone or left:
        reshape(workspace.lake, layer.identifier, found.renamed, [*found.gone, *left])
    return found.retyped


def find_outdated(workspace: Workspace, plan: ResolvedTable, layer: Layer) -> Outdated:
    """What a layer's table has otherwise than its layer; nothing of one that is not there."""
    table = workspace.lake.load(layer.identifier)
    if table is None:
        return Outdated()
    held = {f.name: f.field_type for f in table.schema().fields}
    there = tuple(held)
    now = {then: name for name in layer.names if (then := plan.name_in(there, name)) is not None}
    gone = [name for name in there if name not in now]
    if gone:
        versions = workspace.ledger.schema_versions(plan.name)
        ever = {name for version in versions for name, _ in version.columns}
        gone = [name for name in gone if name in ever]
    renamed = {then: name for then, name in now.items() if then != name}
    was = {name: then for then, name in now.items()}
    retyped = [
        name
        for name, kind in layer.stored
        if (name in was and not can_hold(held[was[name]], iceberg_type(kind)))
        or (
            name not in was and name != DELETED_AT and _must_be_filled(workspace, plan, layer, name)
        )
    ]
    wider = tuple(
        name
        for name, kind in layer.stored
        if name in was and name not in retyped and held[was[name]] != iceberg_type(kind)
    )
    return Outdated(there, renamed, tuple(gone), tuple(retyped), wider)


def _must_be_filled(workspace: Workspace, plan: ResolvedTable, layer: Layer, name: str) -> bool:
    """Whether rows that a layer holds may have values in a column that it lacks. In deduped, where
    MySQL dropped the column, and has it again: rows that only the mirror holds have in it what they
    last held under its name; or it was added with a value for all rows."""
    if layer.name == "clean" or name in plan.filled:
        return True
    ledger = workspace.ledger
    start = ledger.history_start(plan.name)
    folded = {seq for seq in ledger.folded_loads(plan.name, layer.name) if seq >= start}
    loads = [load for load in ledger.successful_loads(plan.name) if load.seq in folded]
    # The newest copy has all rows that there are.
    tables = {load.raw_table for load in (loads[-1:] if plan.contract.replaces_all else loads)}
    versions = (v for v in ledger.schema_versions(plan.name) if v.raw_table in tables)
    return any(plan.name_in(dict(version.columns), name) for version in versions)


_RULES = "its rules changed"
NEXT = "_mirror_next_"
"""What the name of a column begins with that is written and not shown yet."""


def next_names(retyped: Sequence[str]) -> dict[str, str]:
    """Column → the name under which it is written, and not shown."""
    return {name: NEXT + name for name in retyped}


def next_layer(layer: Layer, retyped: Sequence[str]) -> Layer:
    """A layer whose retyped columns have names of their own, beside those that are shown."""
    names = next_names(retyped)
    columns = tuple((names.get(name, name), kind, sql) for name, kind, sql in layer.columns)
    return replace(layer, columns=columns)


def is_made_otherwise(
    workspace: Workspace, plan: ResolvedTable, layer: Layer, table: LakeTable
) -> bool:
    """Whether what a layer's table holds was made by another rule of deletes, or must be written
    again because its columns have other names."""
    ledger = workspace.ledger
    if ledger.definition(_reshaped(layer)) is not None:
        return True
    if table.current_snapshot() is None:
        return plan.contract.deletes != "remove" or bool(plan.contract.earlier_names)
    was = ledger.definition(_deletes(layer)) or "remove"
    return was != plan.contract.deletes or _says_more(plan, ledger.definition(_names(layer)))


def write_by_new_rules(workspace: Workspace, layer: Layer) -> None:
    """Have the next fold write all rows of a layer again, so that nothing of what it shows then
    names a file of before; its readers see the old rows until it shows the new."""
    workspace.ledger.record_definition(_reshaped(layer), _RULES)


def has_new_rules(workspace: Workspace, layer: Layer) -> bool:
    """Whether a layer's rows are to be written again because its rules changed."""
    return workspace.ledger.definition(_reshaped(layer)) == _RULES


def mark_for_rewrite(ledger: Ledger, identifier: Identifier, reason: str) -> None:
    """Have the next fold write all rows of a layer again, from every load."""
    # What new rules take away goes from older versions too; another reason would leave those.
    if ledger.definition(_rewrite_name(identifier)) != _RULES:
        ledger.record_definition(_rewrite_name(identifier), reason)


def record_as_made(workspace: Workspace, plan: ResolvedTable, layer: Layer) -> None:
    """A layer was written as a whole, as the contract and MySQL have it now."""
    ledger, deletes = workspace.ledger, plan.contract.deletes
    earlier = {name: list(earlier) for name, earlier in plan.contract.earlier_names.items()}
    names = json.dumps(earlier, ensure_ascii=False)
    ledger.together(
        lambda: ledger.record_definition(_deletes(layer), deletes),
        lambda: ledger.record_definition(_names(layer), names),
        lambda: ledger.forget_definition(_reshaped(layer)),
    )


def forget_as_made(workspace: Workspace, layer: Layer) -> None:
    """A layer's table has another name now."""
    ledger, names = workspace.ledger, (_deletes(layer), _names(layer), _reshaped(layer))
    ledger.together(*(partial(ledger.forget_definition, name) for name in names))


def _deletes(layer: Layer) -> str:
    """The name under which the ledger keeps by which rule of deletes a layer was made."""
    return f"deletes {layer.identifier}"


def _reshaped(layer: Layer) -> str:
    """The name under which the ledger keeps that a layer's rows are to be written again."""
    return _rewrite_name(layer.identifier)


def _rewrite_name(identifier: Identifier) -> str:
    return f"reshaped {identifier}"


def _names(layer: Layer) -> str:
    """The name under which the ledger keeps by which earlier names of columns a layer was made."""
    return f"names {layer.identifier}"


def _says_more(plan: ResolvedTable, recorded: str | None) -> bool:
    """Whether the contract says an earlier name of a column by which a layer was not made. One that
    it says no more takes nothing back: what was shown under the new name stays."""
    made: dict[str, list[str]] = json.loads(recorded) if recorded else {}
    return any(
        set(earlier) - set(made.get(name, ()))
        for name, earlier in plan.contract.earlier_names.items()
    )


def show_columns(
    workspace: Workspace, layer: Layer, through: int, at: int | None, staged: StagedLayers | None
) -> None:
    """Commit a version that has a layer's new columns even though no row changed, so that anyone
    who reads the layer by version, such as a check or a cut, sees them.

    Args:
        through: the newest load that it holds.
        at: its version before.
        staged: gets the version; None: it is shown at once.

    Raises:
        LakeError: the catalog or the storage failed.
        LeaseHeld: another run took the table over.
    """
    lake, identifier, branch = workspace.lake, layer.identifier, MAIN
    if staged is not None:
        branch = new_branch()
        drop_stale(lake, identifier)
        lake.create_branch(identifier, branch, at)
    workspace.check_lease()
    seal(lake, identifier, branch, {FOLDED: str(through)})
    flush_commits(lake.load(identifier), at, branch)
    if staged is not None:
        staged.versions.append(StagedVersion(identifier, branch, at))
