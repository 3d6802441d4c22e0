"""What is not right though nothing failed, as `sync` and `status --strict` print it; the exit code.

What belongs here: lines for people. What doesn't: finding it
(`mirrorlake.operations.status.attention`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.operations.status.attention import Attention

ATTENTION = 10
"""The exit code where nothing failed, and something is not as it should be."""
_MOST = 20


def _print_attention(found: Sequence[Attention]) -> None:
    """A line for each of the first, gravest first."""
    for one in found[:_MOST]:
        words = show.named(one.table, one.words)
        line = f"[yellow]{one.kind}:[/] {escape(words)}"
        show.errors.print(line, highlight=False, soft_wrap=True)
    if len(found) > _MOST:
        show.errors.print(f"and {len(found) - _MOST:,} more: --json lists them", highlight=False)


def print_not_right(found: Sequence[Attention], tables: int) -> None:
    """What `status --strict` says last."""
    from mirrorlake.operations.status.attention import counts_of

    _print_attention(found)
    words = f"{plural(tables, 'table')}: "
    words += f"not right: {_listed(counts_of(found))}" if found else "all is right"
    show.console.print(words, highlight=False, soft_wrap=True)


def print_summary(outcomes: Mapping[str, int], found: Sequence[Attention]) -> None:
    """What `sync` says last: what became of the tables, and what is not right of them.

    Args:
        outcomes: what became of the tables, in a word → of how many.
    """
    from mirrorlake.operations.status.attention import counts_of

    _print_attention(found)
    tables = sum(outcomes.values())
    if tables == 1 and outcomes.get("failed") and not found:
        return  # its error says it
    words = f"{plural(tables, 'table')}: {_listed(outcomes)}"
    words += f"; not right: {_listed(counts)}" if (counts := counts_of(found)) else ""
    show.console.print(words, highlight=False, soft_wrap=True)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)
