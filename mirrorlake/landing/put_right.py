"""What follows where the table of a landing is not as our last commit left it.

table           | what happened         | what follows
----------------|-----------------------|------------------------------------------------------
any             | our version is there  | it is shown again: `show_ours`
its rows'       | set back, or gone     | its snapshots are folded again from their files
its rows'       | another, or rows by   | refused
                | others over ours      |
what stands     | any other, and its    | refused: a version that knows it is shown again by
beside its rows | keys are needed       | `publish --rollback`, and what came since is folded
                |                       | again; or a backup; or its name is given back to it
"""

from __future__ import annotations

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.commits.heads import MovedTable
from mirrorlake.errors import LakeError
from mirrorlake.landing.fold.state import read_state
from mirrorlake.landing.fold.tables import without_lost
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.rolled_back import find_withdrawn
from mirrorlake.operations.other_writers.moved_lake import find_all_moved
from mirrorlake.operations.other_writers.put_right import note_put_right
from mirrorlake.operations.other_writers.show_ours import other_name, show_ours
from mirrorlake.serving.views import is_as_written, restore_view
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.workspace import Workspace


def put_landing_right(workspace: Workspace, contract: TableContract) -> tuple[list[str], set[int]]:
    """Put right what other hands did to the table of a landing: what was found, in words, and the
    ids of the snapshots that are to be folded again.

    Raises:
        LakeError: nothing but a person can put it right.
        LeaseHeld: another run works on the table.
    """
    ledger, found, again = workspace.ledger, list[str](), set[int]()
    clean = clean_of(contract)
    viewed = ledger.definition(f"view {clean}")
    changed = viewed is not None and not is_as_written(workspace.lake, clean, viewed)
    if not changed and not find_all_moved(workspace.config, ledger, [contract]):
        return [], set()
    with workspace.leased(contract) as leased:
        for one in sorted(leased.moved, key=lambda one: one.layer == "side"):
            words = f"table {contract.name}: {one.said}"
            if done := show_ours(leased, one, register=True):
                found.append(f"{words}: {done}")
                continue
            if one.layer == "side":
                _refuse_lost_side(leased, contract, one)
                found.append(f"{words}: no version of it that is gone is needed")
                continue
            if one.how not in ("set back", "gone"):
                raise LakeError(words, table=contract.name, next_step=_STEPS[one.how])
            known = LandedSnapshots(ledger).snapshots(contract.name)
            before = {r.id for r in known if r.state == "withdrawn"}
            again |= {*find_withdrawn(leased.lake, ledger, contract)} - before
            leased.accept(one.identifier)
            found.append(f"{words}: {len(again)} snapshots are folded again from their files")
        if restore_view(leased, clean):
            found.append(
                f"table {contract.name}: others changed its view {clean}: it is made again"
            )
    note_put_right(ledger, contract.name, found)
    return found, again


def _refuse_lost_side(workspace: Workspace, contract: TableContract, one: MovedTable) -> None:
    """See that a table beside the rows can be done without: of its digests another one is made.

    Raises:
        LakeError: it listed the keys that the newest snapshots lack, or another table has its name.
    """
    if one.how == "another":
        words = f"table {contract.name}: {one.said}"
        raise LakeError(words, table=contract.name, next_step=_STEPS["another"])
    rows = workspace.lake.load(deduped_of(contract))
    if rows is not None:
        try:
            without_lost(workspace.lake, deduped_of(contract), read_state(rows))
        except LakeError as error:
            uuid = one.recorded.uuid if one.recorded is not None else ""
            if one.how == "gone" and (name := other_name(workspace.lake, one.identifier, uuid)):
                raise LakeError(
                    f"{error.message}; it is there as {name}",
                    table=contract.name,
                    next_step=f"Rename that table back to {one.identifier}",
                ) from error
            raise
    workspace.accept(one.identifier)


_STEPS = {
    "written": "Set its main back to the last version that Mirrorlake made (`mirrorlake publish "
    "TABLE` lists them, with `--rollback` it is shown again)",
    "another": "Rename or drop the table that stands in its place, then put ours back: by its "
    "name, or by `mirrorlake lake find`",
}
