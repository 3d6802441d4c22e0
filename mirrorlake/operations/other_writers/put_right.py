"""What other hands did to lake tables, and how it was put right: logged once, kept for alerts."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from mirrorlake.ledger import Ledger

logger = logging.getLogger(__name__)

KEPT = timedelta(days=7)
"""How long what other hands left of a lake table stays under its tag."""
PUT_RIGHT = "other hands "
"""How the names of what the ledger keeps of tables that were put right begin."""


def note_put_right(
    ledger: Ledger, name: str, found: Sequence[str], before: Sequence[str] = ()
) -> None:
    """Say what was put right of a table, and keep it for as long as what other hands left is
    kept.

    Args:
        before: what was said of the same run already.
    """
    if found:
        # One line a table: after a restore there are hundreds.
        logger.warning("%s", "; ".join(found))
        said = {"at": datetime.now(UTC).isoformat(), "found": [*before, *found]}
        ledger.record_definition(f"{PUT_RIGHT}{name}", json.dumps(said))
