"""A cut under names of its own, for tools that can't say a version: clones of its tables.

The namespaces that end with ``__at_cut`` show a source's newest cut, and move with it; others are
clones of one cut that stay.

What belongs here: which namespaces show which versions. What doesn't: how clones are moved
(`mirrorlake.destinations.iceberg.tables.shown_clones`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from mirrorlake.cuts.clean_views import CutViews, drop_views
from mirrorlake.cuts.config import AT_CUT, shown_as
from mirrorlake.cuts.ledger import Cut, Cuts, CutTable
from mirrorlake.cuts.tags import layers_of, remove_tags, tag_versions
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.shown_clones import (
    ShownVersion,
    drop_clones,
    not_a_clone,
    show_clones,
    shown_tags,
    shown_versions,
)
from mirrorlake.errors import ConfigError, LakeError, MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.workspace import Workspace

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")


@dataclass(frozen=True)
class ShownCut:
    """Where a cut is shown.

    Attributes:
        namespaces: that show it.
        together: whether readers saw all of its tables come in one step.
        without: tables whose clean view is not there → why.
        left: tables there that the cut before had, and this one has not.
    """

    namespaces: tuple[str, ...]
    together: bool
    without: dict[str, str] = field(default_factory=dict[str, str])
    left: tuple[str, ...] = ()


def why_not_shown(cut: Cut, left_out: Mapping[str, str]) -> str | None:
    """Why readers of the newest cut keep the one before it; None where nothing is against it."""
    if left_out:
        return f"{next(iter(left_out))} is not in it"
    for one in cut.tables:
        if one.proved == "different":
            return f"{one.table} differs from MySQL"
    if cut.foreign_keys is not None and cut.foreign_keys.with_orphans:
        return "rows have no parent"
    return None


def show_newest(workspace: Workspace, cut: Cut) -> ShownCut:
    """Have the namespaces that show a source's newest cut show this one, whose tags keep it.

    Raises:
        LakeError: the catalog or the storage failed, or a table of one of these names is no clone;
            they show the cut before.
    """
    views = CutViews(workspace, cut)
    for name in views.names():
        _refuse_strange(workspace.lake, name)
    views.withdraw()
    spaces = dict.fromkeys(name.namespace for name in sorted(views.names(), key=str))
    deduped = {f"{one.namespace}{AT_CUT}" for one in cut.tables if one.layer == "deduped"}
    former = _shown_before(workspace, {cut.source}) - set(_namespaces(cut, AT_CUT))
    before = shown_versions(workspace.lake, deduped | former)
    shown = _show(workspace, cut, AT_CUT, cut.tag, [*spaces], former)
    failpoint("cut.clones_moved")
    now = {shown_as(one.identifier) for one in cut.tables}
    left = tuple(sorted(str(name) for name in before if name not in now))
    return replace(shown, without=views.write(), left=left)


def _shown_before(workspace: Workspace, sources: Collection[str]) -> set[str]:
    """The namespaces in which newest cuts of these sources may have clones, and no other's."""
    mine, others = set[str](), set[str]()
    for cut in Cuts(workspace.ledger).all():
        (mine if cut.source in sources else others).update(_namespaces(cut, AT_CUT))
    return mine - others


def _refuse_strange(lake: Lake, name: Identifier) -> None:
    """See that no table that is no clone has a view's name.

    Raises:
        LakeError: one has.
    """
    if lake.load(name) is not None and name not in shown_versions(lake, {name.namespace}):
        raise not_a_clone(name)


def clone_cut(workspace: Workspace, cut: Cut, name: str) -> ShownCut:
    """Give the tables of a cut names that stay when it is dropped. No row is copied.

    Args:
        name: what is added to the names of namespaces, after ``__``.

    Raises:
        ConfigError: the name is none.
        LakeError: there is a clone of this name, or the catalog or the storage failed.
        LeaseHeld: a run holds a table of it.
    """
    suffix = _suffix(workspace, name)
    if suffix == AT_CUT:
        raise _no_name(name)
    for namespace in _namespaces(cut, suffix):
        if workspace.lake.catalog.namespace_exists((namespace,)):
            raise LakeError(
                f"there is a namespace {namespace} already",
                next_step="Take another name; a clone of a cut goes with mirrorlake clone "
                f"--drop {name}",
            )
    tag = f"clone_{name}"
    contracts = {contract.name: contract for contract in workspace.config.tables}
    for table, mine in cut.by_table.items():
        tag_versions(workspace, contracts.get(table), mine, tag)
    failpoint("cut.clone_tagged")
    try:
        return _show(workspace, cut, suffix, tag)
    except MirrorlakeError:
        for table, mine in cut.by_table.items():
            remove_tags(workspace, contracts.get(table), mine, tag)
        raise


def drop_clone_of_cut(workspace: Workspace, name: str) -> list[str]:
    """Drop a clone of a cut; its namespaces. Its versions expire with the others.

    Raises:
        ConfigError: there is none of this name.
        LeaseHeld: a run holds a table of it; what is left goes when this is done again.
    """
    suffix, found = _suffix(workspace, name), list[str]()
    for contract in workspace.config.tables:
        mine = layers_of(contract)
        if suffix != AT_CUT:
            found += [o.namespace for o in mine if _has_tag(workspace, o, f"clone_{name}")]
            remove_tags(workspace, contract, mine, f"clone_{name}")
        found += [o.namespace for o in mine if shown_tags(workspace.lake, f"{o.namespace}{suffix}")]
    if suffix == AT_CUT:
        former = sorted(_shown_before(workspace, workspace.config.sources))
        found += [one.removesuffix(AT_CUT) for one in former if shown_tags(workspace.lake, one)]
        found += drop_views(workspace, workspace.config)
    namespaces = [f"{namespace}{suffix}" for namespace in dict.fromkeys(found)]
    for namespace in namespaces:
        drop_clones(workspace.lake, namespace)
        if suffix != AT_CUT:
            _drop_empty(workspace, namespace)
    if not namespaces:
        raise ConfigError(
            f"there is no clone {name!r} of a cut",
            next_step="mirrorlake clone --cut CUT NAME makes one",
        )
    return namespaces


def _drop_empty(workspace: Workspace, namespace: str) -> None:
    """Drop a namespace of a clone; one in which others made something stays."""
    with suppress(LakeError), workspace.lake.translated(namespace):
        if workspace.lake.catalog.namespace_exists((namespace,)):
            workspace.lake.catalog.drop_namespace((namespace,))


def shown_cuts(workspace: Workspace, cuts: Sequence[Cut]) -> set[str]:
    """The names of those of some cuts that namespaces of the newest one show."""
    spaces = {space for cut in cuts for space in _namespaces(cut, AT_CUT)}
    tags = {tag for space in spaces for tag in shown_tags(workspace.lake, space)}
    return {cut.name for cut in cuts if cut.tag in tags}


def find_shown_otherwise(lake: Lake, cut: Cut) -> list[str]:
    """What is wrong with the namespaces of the newest cut, in words, where they show this one: a
    clone that shows another cut, or was written to, or is gone."""
    there = shown_versions(lake, {*_namespaces(cut, AT_CUT)})
    if all(tag != cut.tag for tag, _ in there.values()):
        return []
    found = list[str]()
    for one in cut.tables:
        name = shown_as(one.identifier)
        tag, version = there.get(name, ("", None))
        if not tag:
            found.append(f"{name} is not there")
        elif tag != cut.tag:
            found.append(f"{name} shows {tag}")
        elif version != one.snapshot_id:
            found.append(f"{name} shows version {version or 'none'}, which is not the cut's")
    return found


def _show(
    workspace: Workspace,
    cut: Cut,
    suffix: str,
    tag: str,
    also: Sequence[str] = (),
    former: Collection[str] = (),
) -> ShownCut:
    wanted = [
        ShownVersion(
            one.identifier,
            one.snapshot_id,
            Identifier(f"{one.namespace}{suffix}", one.lake_table),
            tag,
        )
        for one in cut.tables
    ]
    together = show_clones(workspace.lake, wanted, [*also, *former])
    return ShownCut(tuple(dict.fromkeys([*_namespaces(cut, suffix), *also])), together)


def _has_tag(workspace: Workspace, one: CutTable, tag: str) -> bool:
    table = workspace.lake.load(one.identifier)
    return table is not None and tag in table.metadata.refs


def _namespaces(cut: Cut, suffix: str) -> list[str]:
    return list(dict.fromkeys(f"{one.namespace}{suffix}" for one in cut.tables))


def _suffix(workspace: Workspace, name: str) -> str:
    """What namespaces of a clone end with: those of no layer of ours."""
    spaces = [vars(contract.namespaces).values() for contract in workspace.config.tables]
    taken = {space for of_table in spaces for space in of_table}
    suffix = f"__{name}"
    ours = name == "side" or any(f"{space}{suffix}" in taken for space in taken)
    if ours or not _NAME.fullmatch(name):
        raise _no_name(name)
    return suffix


def _no_name(name: str) -> ConfigError:
    return ConfigError(
        f"{name!r} is no name of a clone",
        next_step="Use small letters, digits and _, a letter first, up to 31 of them; not at_cut, "
        "which shows the newest cut, and none that makes a namespace of the contract file",
    )
