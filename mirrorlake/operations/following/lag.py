"""How far the mirror of tables that follow a source's log is behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.ledger import Ledger, age_of
from mirrorlake.operations.following.live_stream import distance
from mirrorlake.sources.mysql.following.log_state import LogPlace, read_end
from mirrorlake.table.log_place import place_of


@dataclass(frozen=True)
class LogLag:
    """How far the table that is most behind is behind its source.

    Attributes:
        seconds: since the source stood where the mirror stands.
        bytes: of the log that are not in the mirror; of all sources' tables together, not of these
            tables alone. None: its server has not that log any more.
        table: the one that is most behind.
        tables: how many follow the log.
        waiting: those that have no copy yet, or are to be read again as a whole.
    """

    seconds: float
    bytes: int | None
    table: str
    tables: int
    waiting: tuple[str, ...]


def read_lag(
    connection: Connection[Any],
    source: SourceConfig,
    contracts: Sequence[TableContract],
    ledger: Ledger,
) -> LogLag | None:
    """How far tables of a source are behind its log, by what the ledger knows; None where none
    follows it yet.

    Raises:
        SourceError: the server was lost, or does not show its log.
        LedgerError: the ledger could not be read.
    """
    names = [c.name for c in contracts if c.by_log and c.source == source.name]
    end, unproved = read_end(connection, source), ledger.unproved_tables()
    now = end.clock.replace(tzinfo=UTC)
    loads, stamps = ledger.newest_loads(names), ledger.stamps(names)
    standing = {name: one.place for name, one in ledger.standing_progress().items()}
    found: list[tuple[float, int | None, str]] = []
    for name in (name for name in names if name not in unproved):
        text, age = standing.get(name), age_of(loads.get(name), now, stamps.get(name))
        place = place_of(ledger, name) if text is None else LogPlace.parse(text)
        if place is None or age is None:
            continue
        start = place.position.start.log or place.log
        there = start.file in end.files
        behind = distance(end.files, start, end.position) if there else None
        found.append((max(0.0, age.total_seconds()), behind, name))
    if not found:
        return None
    seconds, _, table = max(found, key=lambda one: one[0])
    known = [size for _, size, _ in found if size is not None]
    size = max(known) if len(known) == len(found) else None
    followed = {name for _, _, name in found}
    waiting = tuple(name for name in names if name not in followed)
    return LogLag(round(seconds, 3), size, table, len(found), waiting)


def age_at(as_of: datetime | None, clock: datetime) -> float:
    """Seconds from one moment (UTC) of a source to its clock (UTC, without a zone)."""
    if as_of is None:
        return 0.0
    return max(0.0, (clock.replace(tzinfo=UTC) - as_of).total_seconds())
