"""What follows where the table of a model is not as our last commit left it.

model           | what happened         | what follows
----------------|-----------------------|------------------------------------------------------
any             | our version is there  | it is shown again: `show_ours`
any             | another               | refused
a snapshot      | any other             | refused: what it took can't be taken again
any other       | any other             | the partitions that it lost are computed again
"""

from __future__ import annotations

from mirrorlake.destinations.iceberg.commits.heads import ModelTable, MovedTable
from mirrorlake.errors import LakeError
from mirrorlake.models.ledger import ModelRecords
from mirrorlake.operations.other_writers.put_right import note_put_right
from mirrorlake.operations.other_writers.show_ours import show_ours
from mirrorlake.workspace import Workspace


def put_model_right(workspace: Workspace, model: ModelTable, *, is_snapshot: bool) -> list[str]:
    """Put right what other hands did to the table of a model; what was found, in words. The
    workspace holds its lease. What its history says of rows that others wrote stays: those
    partitions are stale.

    Args:
        is_snapshot: whether what was taken once can't be taken again.

    Raises:
        LakeError: the model is a snapshot, and its table has lost what was taken.
    """
    found: list[str] = []
    for one in workspace.moved:
        words = f"{model.name}: {one.said}"
        if done := show_ours(workspace, one, register=True):
            found.append(f"{words}: {done}")
            continue
        if one.how == "another":
            raise LakeError(
                words,
                table=model.model,
                next_step="Rename or drop the table that stands in its place, then put ours back: "
                "by its name, or by `mirrorlake lake find`",
            )
        if is_snapshot:
            raise _taken_is_lost(model, one)
        _forget_lost(workspace, model, one)
        workspace.accept(one.identifier)
        found.append(f"{words}: what it lost is computed again")
    note_put_right(workspace.ledger, model.name, found)
    return found


def _forget_lost(workspace: Workspace, model: ModelTable, one: MovedTable) -> None:
    """Forget records of commits that the table does not know: of an older copy of it they would be
    taken for commits that expired."""
    table = workspace.lake.load(one.identifier)
    there = {s.snapshot_id for s in table.snapshots()} if table is not None else set[int]()
    known = ModelRecords(workspace.ledger).partitions(model.model)
    lost = [key for key, record in known.items() if record.snapshot_id not in there]
    ModelRecords(workspace.ledger).forget_partitions(model.model, lost)


def _taken_is_lost(model: ModelTable, one: MovedTable) -> LakeError:
    left = one.recorded.snapshot_id if one.recorded is not None else None
    return LakeError(
        f"{model.name}: {one.said}, and it is a snapshot: what was taken can't be taken again",
        table=model.model,
        next_step=f"Put version {left} back: by the catalog's newest copy, by `mirrorlake lake "
        "find`, or by its folder from a backup and `mirrorlake lake find`",
    )
