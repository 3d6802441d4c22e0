"""The shrink guard: a full copy far smaller than the last one stops until a person accepts it, and
so do deletes of most rows of a table that is read by windows.

They stand for a table that was emptied by mistake, a restore that is still running or the wrong
server more often than for what somebody wanted, and everything that reads the mirror would follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import quote

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import TooFewRows
from mirrorlake.ledger import Ledger, Load
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.runtime.plural import plural
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.shrink import is_too_small, takes_too_many


def refuse_smaller(
    plan: ResolvedTable, load: Load, ledger: Ledger, chunks: Sequence[ChunkReceipt]
) -> None:
    """See that a full copy is no smaller than the last one, by the contract's ``shrink_limit``.

    Raises:
        TooFewRows: it is empty and the last was not, or smaller by that share or more.
    """
    copied = load.window.kind == "full" and plan.contract.shrink_limit is not None
    last = last_copy(ledger, plan.name) if copied else None
    if last is not None and last.receipt is not None:
        had = f"the last one ({last.started_at:%Y-%m-%d %H:%M} UTC) had"
        _refuse(plan, last.receipt.rows, chunks, "the copy has", had)


def refuse_smaller_history(plan: ResolvedTable, lake: Lake, chunks: Sequence[ChunkReceipt]) -> None:
    """See that the first load of a new history is no smaller than the mirror that it takes the
    place of, by the contract's ``shrink_limit``: a table that was truncated by mistake would empty
    it.

    Raises:
        TooFewRows: it is empty and the mirror is not, or smaller by that share or more.
        LakeError: the lake could not be read.
    """
    before = lake.count_rows(plan.deduped) if plan.contract.shrink_limit is not None else None
    _refuse(plan, before, chunks, "a new history would begin with", "the mirror has")


def _refuse(
    plan: ResolvedTable, before: int | None, chunks: Sequence[ChunkReceipt], has: str, had: str
) -> None:
    limit, now = plan.contract.shrink_limit, sum(chunk.rows for chunk in chunks)
    if before is None or limit is None or not is_too_small(before, now, limit):
        return
    raise TooFewRows(
        f"table {plan.name}: {has} {plural(now, 'row')}, and {had} {before:,}: "
        f"{1 - now / before:.0%} less, and shrink_limit is {limit:.0%}. The mirror stays as it was",
        table=plan.name,
        source=plan.source.name,
        next_step="Look whether MySQL should hold so few. If it should: `mirrorlake sync "
        f"{quote(plan.name)} --accept-smaller`, or under Dagster a run with the tag "
        "mirrorlake/accept-smaller: true",
    )


def refuse_removals(
    contract: TableContract, lake: Lake, removed: int, count: Callable[[], int] | None = None
) -> None:
    """See that deletes take no more rows out of the mirror than the contract's ``shrink_limit``
    lets them: rows that are missing in MySQL by mistake would be missing in every reader.

    Args:
        removed: how many keys are gone from MySQL.
        count: how many of them the mirror still shows, where that may be fewer; it is called only
            where all of them would be too many.

    Raises:
        TooFewRows: they would be too many; nothing was removed.
        LakeError: the lake could not be read.
    """
    limit = contract.shrink_limit
    if limit is None or not removed or contract.deletes == "ignore":
        return
    shown = lake.count_rows(Identifier(contract.namespaces.deduped, contract.table)) or 0
    if takes_too_many(shown, removed, limit) and count is not None:
        removed = count()
    if not takes_too_many(shown, removed, limit):
        return
    raise TooFewRows(
        f"table {contract.name}: MySQL no longer has {removed:,} of the mirror's {shown:,} rows: "
        f"{removed / shown:.0%} less, and shrink_limit is {limit:.0%}. They stay in the mirror",
        table=contract.name,
        source=contract.source,
        next_step="Look whether MySQL should hold so few. If it should: `mirrorlake repair "
        f"{quote(contract.name)} --deletes --accept-smaller` takes them out",
    )


def last_copy(ledger: Ledger, name: str) -> Load | None:
    """The newest full copy of a table, whatever was loaded since."""
    copies = (
        x for x in reversed(ledger.successful_loads(name, ever=True)) if x.window.kind == "full"
    )
    return next(copies, None)
