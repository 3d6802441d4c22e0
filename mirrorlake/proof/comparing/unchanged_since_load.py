"""Whether MySQL has changed a table since a load read it: if it has not, no row has to wait.

Source: MySQL 8.0 manual, 17.1.3 "Replication with Global Transaction Identifiers", 28.3.38 "The
INFORMATION_SCHEMA TABLES Table".
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.ledger.records import Load, Receipt
from mirrorlake.proof.sides.mysql_side import changed_at
from mirrorlake.sources.mysql.sessions.connect import SourcePosition, read_position
from mirrorlake.sources.mysql.tables import SourceTable

_MARGIN = timedelta(seconds=1)
"""The server reports in whole seconds when a table was changed."""


def is_still(
    connection: Connection[Any],
    source: SourceConfig,
    table: SourceTable,
    load: Load,
    position: SourcePosition | None = None,
) -> bool:
    """Whether the table is surely as the load found it. False where that is not known.

    A replica is never known to be still: its clock and its position show what it applied, not
    what it is about to apply.

    Args:
        position: the server's, where it was just read.
    """
    if source.primary is not None or load.receipt is None:
        return False
    now = (position or read_position(connection)).position
    return is_unchanged(load.receipt, now, changed_at(connection, table))


def is_unchanged(receipt: Receipt, position: str, changed: datetime | None) -> bool:
    """Whether a server at this position, which says that it last changed the table at ``changed``
    (UTC; None: it does not know), has not changed it since the load's first read."""
    moment = datetime.fromisoformat(receipt.moment).replace(microsecond=0, tzinfo=None)
    if changed is not None and changed < moment - _MARGIN:
        return True
    if changed is not None and changed > moment + _MARGIN:
        return False
    return bool(position) and position == receipt.position
