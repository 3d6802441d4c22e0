"""The tags of a cut in the lake: what a table shows is tagged, and tags are taken away.

What belongs here: single tables. What doesn't: which of them are in a cut
(`mirrorlake.cuts.make`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from mirrorlake.config import TableContract
from mirrorlake.cuts.ledger import Cut, Cuts, CutTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.metadata.row_counts import count_shown
from mirrorlake.destinations.iceberg.tables.clones import LEFT as CLONE_LEAVES
from mirrorlake.destinations.iceberg.tables.tags import tag_version, untag
from mirrorlake.operations.loading.unchanged import stamp_kept
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


def shown_of(leased: Workspace, plan: ResolvedTable) -> list[CutTable]:
    """What a table's layers show now, of which a cut has versions."""
    layers = [("deduped", plan.deduped)]
    layers += [("clean", plan.clean)] if plan.contract.clean == "table" else []
    return [as_shown(leased, plan.contract, layer, at) for layer, at in layers]


def tag_shown(leased: Workspace, contract: TableContract, cut: Cut, found: list[CutTable]) -> None:
    """Tag versions of a table, whose lease the caller holds, as a cut's."""
    Cuts(leased.ledger).add(cut.name, found)  # before: who dies in between leaves nothing unknown
    with stamp_kept(leased.config, leased.ledger, contract):
        for one in found:
            if one.snapshot_id is not None:
                said = {property_of(cut.name): _said(cut, one)}
                tag_version(leased.lake, one.identifier, one.snapshot_id, cut.tag, said)


def put_back_tags(
    leased: Workspace, contract: TableContract, cuts: Sequence[Cut]
) -> list[tuple[Cut, CutTable]]:
    """Tag again what cuts have of a table, whose lease the caller holds, where other hands moved
    the tag or took it away, and the version is still there; what was tagged."""
    mine = [(cut, one) for cut in cuts for one in cut.by_table.get(contract.name, ())]
    tables = {name: leased.lake.load(name) for name in {one.identifier for _, one in mine}}
    found = list[tuple[Cut, CutTable]]()
    for cut, one in mine:
        table = tables[one.identifier]
        if table is None or one.snapshot_id is None:
            continue
        tag = table.metadata.refs.get(cut.tag)
        moved = tag is None or tag.snapshot_id != one.snapshot_id
        if moved and table.snapshot_by_id(one.snapshot_id) is not None:
            untag(leased.lake, one.identifier, cut.tag)
            tag_shown(leased, contract, cut, [one])
            found.append((cut, one))
    return found


def tag_versions(
    workspace: Workspace, contract: TableContract | None, found: Sequence[CutTable], tag: str
) -> None:
    """Tag versions of one table that a cut has; of one that the file has no more, without its
    lease. One that has the tag already keeps it.

    Raises:
        LeaseHeld: a run holds the table.
        LakeError: a version is there no more.
    """
    with _leased(workspace, contract) as leased:
        for one in found:
            table = leased.lake.load(one.identifier)
            if one.snapshot_id is not None and (table is None or tag not in table.metadata.refs):
                tag_version(leased.lake, one.identifier, one.snapshot_id, tag)


def as_shown(
    workspace: Workspace, contract: TableContract, layer: str, identifier: Identifier
) -> CutTable:
    table = workspace.lake.load(identifier)
    shown = table.current_snapshot() if table is not None else None
    rows = None
    if table is not None and shown is not None:
        with workspace.lake.translated(identifier):
            rows = count_shown(table)
    return CutTable(
        table=contract.name,
        layer=layer,
        namespace=identifier.namespace,
        lake_table=identifier.name,
        snapshot_id=shown.snapshot_id if shown is not None else None,
        rows=rows,
    )


def remove_tags(
    workspace: Workspace, contract: TableContract | None, found: Sequence[CutTable], tag: str
) -> None:
    """Take a cut's tags from the lake tables of one table; of one that the file has no more,
    without its lease."""
    said = property_of(tag.removeprefix("cut_"))
    with _leased(workspace, contract) as leased:
        for one in found:
            untag(leased.lake, one.identifier, tag, (said,))


def leave_out(workspace: Workspace, contract: TableContract, cut: Cut) -> None:
    """Have a table be in a cut no more, whatever was tagged of it."""
    cuts = Cuts(workspace.ledger)
    if tagged := cuts.tables(cut.name).get(contract.name):
        remove_tags(workspace, contract, tagged, cut.tag)
        cuts.leave_out(cut.name, contract.name)


def layers_of(contract: TableContract) -> list[CutTable]:
    """A table's lake tables of which cuts have versions, without any."""
    names = [(layer, getattr(contract.namespaces, layer)) for layer in ("deduped", "clean")]
    return [CutTable(contract.name, n, space, contract.table, None, None) for n, space in names]


def property_of(cut: str) -> str:
    """The property of a lake table that says what a cut was which tagged a version of it: a ledger
    that was lost learns it from there."""
    return f"{CLONE_LEAVES}{cut}"


def _said(cut: Cut, one: CutTable) -> str:
    times = {"at": cut.at, "made_at": cut.made_at, "keep_until": cut.keep_until}
    said = {name: moment and moment.isoformat() for name, moment in times.items()}
    return json.dumps({"source": cut.source, "place": cut.place, "gtid": cut.gtid, **said,
                       "rows": one.rows})  # fmt: skip


def read_tagged(text: str, name: str, one: CutTable) -> tuple[Cut, CutTable]:
    """A cut, and what it has of a table, by what a property of that says.

    Args:
        one: the table, without its rows.
    """
    said = json.loads(text)
    times = ("at", "made_at", "keep_until")
    at, made, until = (said[n] and datetime.fromisoformat(said[n]) for n in times)
    cut = Cut(name, said["source"], said["place"], said["gtid"], at, made, until)
    return cut, replace(one, rows=said["rows"], words="the ledger that knew it was lost")


@contextmanager
def _leased(workspace: Workspace, contract: TableContract | None) -> Iterator[Workspace]:
    """A table's lease; what tags change of its heads is ours."""
    if contract is None:
        yield workspace
        return
    with workspace.leased(contract) as leased:
        leased.check_lease()
        with stamp_kept(leased.config, leased.ledger, contract):
            yield leased
