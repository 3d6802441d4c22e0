"""What people decide about single snapshots: to leave one out for good, or to take it again."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError, LandingError
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.ledger import Ledger
from mirrorlake.workspace import Workspace

STATES = ("refused", "withdrawn")
"""Words that stand for all snapshots in a state."""


def chosen_ids(ledger: Ledger, contract: TableContract, words: Iterable[str]) -> set[int]:
    """The ids that ``words`` name: an id, or one of `STATES` for all snapshots in it.

    Raises:
        ConfigError: a word is neither.
    """
    ids: set[int] = set()
    for word in words:
        if word in STATES:
            ids |= {
                r.id for r in LandedSnapshots(ledger).snapshots(contract.name) if r.state == word
            }
        elif word.isascii() and word.isdecimal() and len(word) <= 14:
            ids.add(int(word))
        else:
            raise ConfigError(
                f"{word!r} is no snapshot's id",
                table=contract.name,
                next_step=f"An id is YYYYMMDDhhmmss; {' and '.join(STATES)} stand for all that are",
            )
    return ids


def skip_snapshots(
    workspace: Workspace, contract: TableContract, words: Iterable[str]
) -> list[int]:
    """Leave snapshots out for good, whatever becomes of their files; their ids.

    Of a published one, whose files changed since, only that is acknowledged: readers see what was
    published.

    Raises:
        ConfigError: a word is no id.
        LandingError: a snapshot is unknown, or published with nothing to acknowledge.
        LeaseHeld: a run works on the table.
    """
    ids = sorted(chosen_ids(workspace.ledger, contract, words))
    if not ids:
        return []
    with workspace.leased(contract):
        for number in ids:
            skipped = SnapshotNotices(workspace.ledger).skip_snapshot(contract.name, number)
            acknowledged = SnapshotNotices(workspace.ledger).acknowledge_notice(
                contract.name, number
            )
            if not (skipped or acknowledged):
                raise _not_skipped(workspace, contract, number)
    return ids


def _not_skipped(workspace: Workspace, contract: TableContract, number: int) -> LandingError:
    name = contract.name
    if LandedSnapshots(workspace.ledger).snapshot(name, number) is None:
        return LandingError(
            f"table {name}: no snapshot {number:014d} was seen",
            table=name,
            next_step=f"`mirrorlake land {quote(name)}` lists what waits",
        )
    return LandingError(
        f"table {name}: snapshot {number:014d} is published already",
        table=name,
        next_step=f"`mirrorlake publish {quote(name)} --rollback` shows the version before it; "
        "then it can be skipped",
    )
