"""What follows where the table of a landing is not as our last commit left it.

what happened          | what follows
-----------------------|------------------------------------------------------
our version is there   | it is shown again: `show_ours`
set back, or gone      | its snapshots are folded again from their files
another, or rows by    | refused
others over ours       |
"""

from __future__ import annotations

from mirrorlake.config import TableContract
from mirrorlake.errors import LakeError
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.rolled_back import find_withdrawn
from mirrorlake.operations.moved_lake import find_all_moved
from mirrorlake.operations.moved_layers import show_ours
from mirrorlake.operations.put_right import note_put_right
from mirrorlake.workspace import Workspace


def put_landing_right(workspace: Workspace, contract: TableContract) -> tuple[list[str], set[int]]:
    """Put right what other hands did to the table of a landing: what was found, in words, and the
    ids of the snapshots that are to be folded again.

    Raises:
        LakeError: nothing but a person can put it right.
        LeaseHeld: another run works on the table.
    """
    if not find_all_moved(workspace.config, workspace.ledger, [contract]):
        return [], set()
    ledger, found, again = workspace.ledger, list[str](), set[int]()
    with workspace.leased(contract) as leased:
        for one in leased.moved:
            words = f"table {contract.name}: {one.said}"
            if done := show_ours(leased, one, register=True):
                found.append(f"{words}: {done}")
                continue
            if one.how not in ("set back", "gone"):
                raise LakeError(words, table=contract.name, next_step=_STEPS[one.how])
            before = {
                r.id
                for r in LandedSnapshots(ledger).snapshots(contract.name)
                if r.state == "withdrawn"
            }
            again |= {*find_withdrawn(leased.lake, ledger, contract)} - before
            leased.accept(one.identifier)
            found.append(f"{words}: {len(again)} snapshots are folded again from their files")
    note_put_right(ledger, contract.name, found)
    return found, again


_STEPS = {
    "written": "Set its main back to the last version that Mirrorlake made (`mirrorlake publish "
    "TABLE` lists them, with `--rollback` it is shown again)",
    "another": "Rename or drop the table that stands in its place, then put ours back: by its "
    "name, or by `mirrorlake lake find`",
}
