"""Columns that MySQL got and the mirror does not take up (``schema_changes: freeze``): a mirror
that is equal without them is not all there is, so they are said.

What belongs here: what is written down of them, and words. What doesn't: which they are
(`mirrorlake.table.columns.shape`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Final

from mirrorlake.ledger import Ledger

logger = logging.getLogger(__name__)

LEFT_OUT: Final = "left out "
"""How the names begin of what the ledger keeps of it; the table's own follows."""


def note_left_out(ledger: Ledger, table: str, columns: Sequence[str]) -> None:
    """Write down which columns a sync left out, and warn where they are others than before.

    Args:
        table: as the contract names it.
        columns: as MySQL names them.
    """
    name = LEFT_OUT + table
    before = left_out_columns(ledger.definition(name))
    if tuple(columns) == before:
        return
    if not columns:
        ledger.forget_definition(name)
        return
    ledger.record_definition(name, json.dumps(columns, ensure_ascii=False))
    logger.warning(
        "table %s: %s. Each that `columns` in the contract names is taken up",
        *(table, left_out_words(columns)),
    )


def left_out_columns(recorded: str | None) -> tuple[str, ...]:
    """The columns of what the ledger keeps."""
    return tuple(json.loads(recorded)) if recorded else ()


def left_out_words(columns: Sequence[str]) -> str:
    """
    >>> left_out_words(["z"])
    'not mirrored, by `schema_changes: freeze`: z'
    """
    return f"not mirrored, by `schema_changes: freeze`: {', '.join(columns)}"
