"""How far the mirror of tables that follow a source's log is behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.config.contract import Mirrored, TenantTable
from mirrorlake.ledger import Ledger, age_of
from mirrorlake.operations.following.live_stream import distance
from mirrorlake.sources.mysql.following.log_state import LogPlace, read_end
from mirrorlake.sources.mysql.sessions.connect import read_position
from mirrorlake.table.log_place import place_of
from mirrorlake.table.tenants_in_log import lowest_place


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
    contracts: Sequence[Mirrored],
    ledger: Ledger,
) -> LogLag | None:
    """How far tables of a source are behind its log, by what the ledger knows; None where none
    follows it yet. Of a table of tenants that is how far those of this source are.

    Raises:
        SourceError: the server was lost, or does not show its log.
        LedgerError: the ledger could not be read.
    """
    tables = [one for one in contracts if isinstance(one, TableContract)]
    names = [c.name for c in tables if c.by_log and c.source == source.name]
    end, unproved = read_end(connection, source), ledger.unproved_tables()
    now = end.clock.replace(tzinfo=UTC)
    loads, stamps = ledger.newest_loads(names), ledger.stamps(names)
    standing = {name: one.place for name, one in ledger.standing_progress().items()}
    found: list[tuple[float, int | None, str]] = []

    def note(name: str, place: LogPlace, age: timedelta) -> None:
        start = place.position.start.log or place.log
        there = start.file in end.files
        behind = distance(end.files, start, end.position) if there else None
        found.append((max(0.0, age.total_seconds()), behind, name))

    for name in (name for name in names if name not in unproved):
        text, age = standing.get(name), age_of(loads.get(name), now, stamps.get(name))
        place = place_of(ledger, name) if text is None else LogPlace.parse(text)
        if place is not None and age is not None:
            note(name, place, age)
    mine = [one for one in contracts if isinstance(one, TenantTable) and one.by_log]
    mine = [one for one in mine if source.name in one.sources]
    server = read_position(connection).server if mine else ""
    for table in mine:
        names.append(table.name)
        standing_there = _tenants_at(ledger, table, source.name, server)
        if standing_there is not None:
            note(table.name, standing_there[0], now - standing_there[1])
    if not found:
        return None
    seconds, _, table = max(found, key=lambda one: one[0])
    known = [size for _, size, _ in found if size is not None]
    size = max(known) if len(known) == len(found) else None
    followed = {name for _, _, name in found}
    waiting = tuple(name for name in names if name not in followed)
    return LogLag(round(seconds, 3), size, table, len(found), waiting)


def _tenants_at(
    ledger: Ledger, table: TenantTable, source: str, server: str
) -> tuple[LogPlace, datetime] | None:
    """From where on changes of the tenants of one source are not in raw, and up to when (UTC) all
    are; None where none follows its log yet."""
    known = [t for (name, _), t in ledger.tenants(table.name).items() if name == source]
    there = [one for one in known if one.gone_at is None and one.terms is not None]
    seen = [one.seen_at for one in there if one.seen_at is not None]
    place = lowest_place(ledger, table, source, server, there)
    return None if place is None or not seen else (place, min(seen))


def age_at(as_of: datetime | None, clock: datetime) -> float:
    """Seconds from one moment (UTC) of a source to its clock (UTC, without a zone)."""
    if as_of is None:
        return 0.0
    return max(0.0, (clock.replace(tzinfo=UTC) - as_of).total_seconds())
