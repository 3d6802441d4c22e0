"""How far the mirror of tables that follow a source's log is behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

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


_Standing: TypeAlias = tuple[LogPlace, timedelta]
"""From where on changes are not in raw, and how long ago that was all that there was."""


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
    end = read_end(connection, source)
    now, names = end.clock.replace(tzinfo=UTC), list[str]()
    found: list[tuple[float, int | None, str]] = []
    server = read_position(connection).server
    for name, standing in _standing(ledger, contracts, source.name, server, now):
        names.append(name)
        if standing is None:
            continue
        place, age = standing
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


def _standing(
    ledger: Ledger, contracts: Sequence[Mirrored], source: str, server: str, now: datetime
) -> Iterator[tuple[str, _Standing | None]]:
    """Each table that follows the log, and where it stands; None of one that is not followed yet.

    Args:
        server: the identity of the source's server.
        now: its clock (UTC).
    """
    tables = [one for one in contracts if isinstance(one, TableContract) and one.by_log]
    names = [table.name for table in tables if table.source == source]
    unproved = ledger.unproved_tables()
    loads, stamps = ledger.newest_loads(names), ledger.stamps(names)
    noted = {name: one.place for name, one in ledger.standing_progress().items()}
    for name in names:
        text, age = noted.get(name), age_of(loads.get(name), now, stamps.get(name))
        place = place_of(ledger, name) if text is None else LogPlace.parse(text)
        if name in unproved or place is None or age is None:
            yield name, None
        else:
            yield name, (place, age)
    for table in (one for one in contracts if isinstance(one, TenantTable) and one.by_log):
        if source in table.sources:
            there = _tenants_at(ledger, table, source, server)
            yield table.name, None if there is None else (there[0], now - there[1])


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


def age_at(as_of: datetime | None, clock: datetime) -> float | None:
    """Seconds from one moment (UTC) of a source to its clock (UTC, without a zone), in thousandths;
    None where there is no such moment."""
    if as_of is None:
        return None
    return round(max(0.0, (clock.replace(tzinfo=UTC) - as_of).total_seconds()), 3)
