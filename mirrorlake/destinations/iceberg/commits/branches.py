"""Branches of lake tables: what is written there is seen by nobody until main is moved to it.

A branch is a name for a snapshot, as main is. Publishing is a fast-forward: main is set to the
branch's head in one commit of metadata, which asserts where main was; no file is copied. Write to a
branch with `mirrorlake.destinations.iceberg.commits.commit` (``Commit.branch``), or by Spark as
``table.branch_<name>``.

The caller holds the table's lease. Libraries make a branch that was never made without a word, and
an empty one: here an unknown name is refused.

Source: the Iceberg specification, "Snapshot References"; "Point in Time Reads".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from mirrorlake.destinations.base import MAIN, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.commits.column_names import name_columns
from mirrorlake.destinations.iceberg.commits.commit import BY
from mirrorlake.destinations.iceberg.model import history
from mirrorlake.errors import CommitConflict, LakeError

_MARK = {BY: "mirrorlake"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def list_branches(lake: Connection, identifier: Identifier) -> dict[str, int]:
    """The table's branches, main among them unless the table is empty, and their heads.

    Raises:
        LakeError: there is no such table.
    """
    return _branches(_load(lake, identifier))


def read_branch(lake: Connection, identifier: Identifier, name: str) -> int:
    """The snapshot that a branch shows.

    Raises:
        LakeError: there is no such table, or no such branch.
    """
    return _head(_load(lake, identifier), identifier, name)


def create_branch(lake: Connection, identifier: Identifier, name: str, at: int | None) -> int:
    """Make a branch that shows what the table showed at a snapshot; its head.

    Args:
        at: the snapshot, which may be any that the table still has; None for an empty table. Its
            branch begins with an empty snapshot, and main stays without any.

    Raises:
        LakeError: the branch is there already, its name can't be one, the table has no such
            snapshot, or ``at`` is None and the table is not empty.
        CommitConflict: another writer was faster; there is no new branch.
    """
    if name == MAIN or not _NAME.fullmatch(name):
        raise _refused(
            identifier, f"can't have a branch {name!r}", "Use letters, digits, '-', '_' and '.'"
        )
    table = _load(lake, identifier)
    if name in table.metadata.refs:
        raise _refused(identifier, f"has a branch or tag {name!r} already", "Drop that one first")
    if at is None:
        if table.current_snapshot() is not None:
            raise CommitConflict(
                f"lake table {identifier} is not empty any more: its branch {name} was not made",
                table=str(identifier),
                next_step="Try again",
                retryable=True,
            )
        return begin_branch(lake, identifier, name)
    if table.snapshot_by_id(at) is None:
        raise _no_snapshot(identifier, at)
    with lake.committing(
        identifier,
        lambda: list_branches(lake, identifier).get(name) == at,
        lambda: _moved(identifier, f"branch {name} was not made"),
    ):
        table.manage_snapshots().create_branch(at, name).commit()
    return at


def begin_branch(lake: Connection, identifier: Identifier, name: str) -> int:
    """Make a branch that begins with nothing, whatever main shows: an empty snapshot that came of
    no other, so that what is written there reads nothing of what is on main; its head.

    Raises:
        LakeError: there is no such table, or the branch is there already.
        CommitConflict: another writer was faster; there is no new branch.
    """
    table = _load(lake, identifier)
    if name in table.metadata.refs:
        raise _refused(identifier, f"has a branch or tag {name!r} already", "Drop that one first")
    with lake.committing(
        identifier,
        lambda: name in list_branches(lake, identifier),
        lambda: _moved(identifier, f"branch {name} was not made"),
    ):
        if not table.snapshots():
            _begin_first(lake, table, name)
        else:
            with table.transaction() as transaction:
                update = transaction.update_snapshot(_MARK, branch=name)
                with update.fast_append():
                    pass
    return read_branch(lake, identifier, name)


def _begin_first(lake: Connection, table: Table, name: str) -> None:
    """Give a table without any snapshot its first one, on a branch. A transaction of PyIceberg's
    would refuse it, for the branch is not main; so main is what must not be there."""
    append = table.transaction().update_snapshot(_MARK, branch=name).fast_append()
    updates, _ = append._commit()  # pyright: ignore[reportPrivateUsage]
    main: Any = AssertRefSnapshotId(ref=MAIN, snapshot_id=None)  # type: ignore[call-arg]
    lake.catalog.commit_table(
        table, (AssertTableUUID(uuid=table.metadata.table_uuid), main), updates
    )


def replace_main(
    lake: Connection,
    identifier: Identifier,
    name: str,
    expected: int | None,
    columns: Mapping[str, str],
) -> int:
    """Show on main what a branch shows that did not come of it, in one commit; main's new head.

    What main showed stays in the table until it expires. The branch stays.

    Args:
        expected: main's head (None: none) that the branch is to replace.
        columns: name → the column of the branch that takes it, in the same commit. What had that
            name goes: older versions show it still.

    Raises:
        CommitConflict: main has moved since; nothing was changed.
        LakeError: there is no such branch.
    """
    table = _load(lake, identifier)
    head = _head(table, identifier, name)
    current = _main(table)
    if current != expected:
        raise _main_moved(identifier, name, expected, current)
    failed = f"main was not replaced by branch {name}"
    if columns:
        return _show_columns(lake, table, identifier, name, columns, failed)
    _set_main(lake, table, identifier, head, failed)
    return head


def _show_columns(
    lake: Connection,
    table: Table,
    identifier: Identifier,
    name: str,
    columns: Mapping[str, str],
    failed: str,
) -> int:
    """Set main to what a branch shows, and give its columns their names: one commit."""
    shown = -1
    with (
        lake.committing(
            identifier,
            lambda: _main(_load(lake, identifier)) == shown,
            lambda: _moved(identifier, failed),
        ),
        table.transaction() as transaction,
    ):
        shown = name_columns(transaction, table, name, columns)
    return shown


def publish_branch(
    lake: Connection, identifier: Identifier, name: str, expected: int | None, *, keep: bool = False
) -> int:
    """Move main forward to a branch's head, in one commit, and drop the branch; main's new head.

    Doing it again is no error where main is at the branch's head already.

    Args:
        expected: main's head, from which the branch was made; None: main was empty.
        keep: whether the branch stays.

    Raises:
        CommitConflict: main has moved since: nothing was changed. The branch has to be made again
            from the new head; it is never forced.
        LakeError: there is no such branch.
    """
    table = _load(lake, identifier)
    head = _head(table, identifier, name)
    current = _main(table)
    if current != head:
        if current != expected or not _leads_to(table, head, current):
            raise _main_moved(identifier, name, expected, current)
        _set_main(lake, table, identifier, head, f"branch {name} was not published")
    if not keep:
        drop_branch(lake, identifier, name)
    return head


def roll_back(lake: Connection, identifier: Identifier, to: int, expected: int) -> int:
    """Set main back to a snapshot that it showed before; its new head.

    The later snapshots stay in the table until they expire, so this can be undone with
    `set_forward`.

    Args:
        expected: main's head, which is to be left.

    Raises:
        CommitConflict: main has moved since; nothing was changed.
        LakeError: main never showed this snapshot, or it has expired.
    """
    table = _load_to_set(lake, identifier, to, expected)
    if to not in {snapshot.snapshot_id for snapshot in history(table)}:
        raise _refused(
            identifier,
            f"never showed snapshot {to} on main",
            "Choose one of main's own history: a branch is published instead",
        )
    _set_main(lake, table, identifier, to, f"main was not set back to {to}")
    return to


def set_forward(lake: Connection, identifier: Identifier, to: int, expected: int) -> int:
    """Undo a `roll_back`: set main forward to a snapshot that came of the one it shows.

    Raises:
        CommitConflict: main has moved since; nothing was changed.
        LakeError: the snapshot did not come of main's head, or has expired.
    """
    table = _load_to_set(lake, identifier, to, expected)
    if not _leads_to(table, to, expected):
        raise _refused(
            identifier, f"has a snapshot {to} that did not come of main", "Choose a later one"
        )
    _set_main(lake, table, identifier, to, f"main was not set to {to}")
    return to


def drop_branch(lake: Connection, identifier: Identifier, name: str) -> None:
    """Take a branch's name away; its snapshots stay until they expire.

    Raises:
        LakeError: there is no such branch, or it is main.
        CommitConflict: another writer was faster; the branch is there.
    """
    table = _load(lake, identifier)
    _head(table, identifier, name)
    if name == MAIN:
        raise _refused(identifier, "can't be without main", "Name another branch")
    with lake.committing(
        identifier,
        lambda: name not in list_branches(lake, identifier),
        lambda: _moved(identifier, f"branch {name} was not dropped"),
    ):
        table.manage_snapshots().remove_branch(name).commit()


# --- refs -----------------------------------------------------------------------------------------


def _load(lake: Connection, identifier: Identifier) -> Table:
    table = lake.load(identifier)
    if table is None:
        raise LakeError(
            f"there is no lake table {identifier}", table=str(identifier), next_step="Sync it first"
        )
    return table


def _branches(table: Table) -> dict[str, int]:
    return {
        name: ref.snapshot_id
        for name, ref in table.metadata.refs.items()
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH
    }


def _head(table: Table, identifier: Identifier, name: str) -> int:
    found = _branches(table)
    if name not in found:
        there = ", ".join(sorted(found)) or "none"
        raise _refused(identifier, f"has no branch {name!r}", f"Its branches: {there}")
    return found[name]


def _main(table: Table) -> int | None:
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot else None


def _leads_to(table: Table, head: int, current: int | None) -> bool:
    return current is None or current in {s.snapshot_id for s in history(table, head)}


def _set_main(lake: Connection, table: Table, identifier: Identifier, to: int, failed: str) -> None:
    """One commit, which asserts that main is where this ``table`` has it."""
    with lake.committing(
        identifier,
        lambda: _main(_load(lake, identifier)) == to,
        lambda: _moved(identifier, failed),
    ):
        table.manage_snapshots().set_current_snapshot(snapshot_id=to).commit()


def _refused(identifier: Identifier, words: str, step: str) -> LakeError:
    return LakeError(f"lake table {identifier} {words}", table=str(identifier), next_step=step)


def _load_to_set(lake: Connection, identifier: Identifier, to: int, expected: int) -> Table:
    """A table whose main is still where it is expected, and can be set to a snapshot.

    Raises:
        CommitConflict: main has moved since.
        LakeError: there is no such snapshot.
    """
    table = _load(lake, identifier)
    if table.snapshot_by_id(to) is None:
        raise _no_snapshot(identifier, to)
    current = _main(table)
    if current != expected:
        raise _main_moved(identifier, str(to), expected, current)
    return table


def _no_snapshot(identifier: Identifier, snapshot: int) -> LakeError:
    return _refused(identifier, f"has no snapshot {snapshot}", "It may have expired")


def _moved(identifier: Identifier, failed: str) -> CommitConflict:
    return CommitConflict(
        f"another writer was faster at lake table {identifier}: {failed}",
        table=str(identifier),
        next_step="Nothing of it is visible: try again",
        retryable=True,
    )


def _main_moved(
    identifier: Identifier, what: str, expected: int | None, current: int | None
) -> CommitConflict:
    return CommitConflict(
        f"lake table {identifier}: main has moved from snapshot {expected} to {current}, so it is "
        f"not set to {what}",
        table=str(identifier),
        next_step="Make it again from the new head",
        retryable=True,
    )
