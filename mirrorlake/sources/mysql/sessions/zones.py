"""The zone in which a server writes DATETIME, held against the zone that the contract names.

A window ends at the server's UTC clock, and a DATETIME says no zone. Where the contract names
another zone than the one in which rows are written, each new row lies hours behind the window that
should read it, and no window ever does. The server's own zone is that of `NOW()` and
`CURRENT_TIMESTAMP` in a session that sets none: `time_zone`, or what `init_connect` makes of it.

A name alone says little (``SYSTEM``, ``CST``), so the server gives its wall clock at one
moment of every week, until a year from now: a zone that differs only in summer differs.

Source: MySQL 8.0 manual, 5.1.15 "MySQL Server Time Zone Support"; 12.7 "CONVERT_TZ".
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import available_timezones

from pymysql.connections import Connection

from mirrorlake.config.fields import zone_of
from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import ConfigError, SourceError
from mirrorlake.sources.mysql.sessions.connect import read_first_zone, rows_of, session

logger = logging.getLogger(__name__)

WALL_TIMES: Final = ("datetime", "date")
"""Types whose values are of no zone: they need one to be compared with a clock."""
_TOLERANCE: Final = timedelta(minutes=1)
_DAYS: Final = range(-28, 371, 7)
# Where several names fit equally, the one that most people would have written.
_COMMON: Final = (
    *("UTC", "Europe/London", "Europe/Berlin", "Europe/Helsinki", "Europe/Moscow"),
    *("America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles"),
    *("America/Sao_Paulo", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Asia/Dubai"),
    *("Australia/Sydney", "Pacific/Auckland"),
)


@dataclass(frozen=True)
class ServerZone:
    """The zone in which a server writes DATETIME by itself.

    Attributes:
        name: in the server's words: ``Europe/Berlin``, ``+05:30``, ``SYSTEM``.
        system: the abbreviation that the server's machine had when it started, like ``CET``.
        walls: moments (UTC, without a zone) and the server's wall clock at each, in order; the
            first is about now.
    """

    name: str
    system: str
    walls: tuple[tuple[datetime, datetime], ...]

    @property
    def words(self) -> str:
        """What the server calls it, for people."""
        return f"SYSTEM, {self.system}" if self.name.upper() == "SYSTEM" else self.name


def read_server_zone(connection: Connection[Any], source: SourceConfig) -> ServerZone:
    """The zone in which a new session of the server writes; of a replica, that of its primary.

    Raises:
        SourceError: the server could not be queried, or does not know its own zone.
    """
    if source.primary is not None:
        try:
            with session(source.primary) as primary:
                return _read(primary, source.primary)
        except SourceError as error:
            logger.info(
                "source %s: its primary's zone can't be read, so the replica's is taken: %s",
                *(source.name, error),
            )
    return _read(connection, source)


def _read(connection: Connection[Any], source: SourceConfig) -> ServerZone:
    ((name, system, on_connect),) = rows_of(
        connection, "SELECT @@global.time_zone, @@system_time_zone, @@global.init_connect"
    )
    if "time_zone" in str(on_connect or "").lower():
        name = read_first_zone(source)
    moments = ", ".join(
        f"UTC_TIMESTAMP() + INTERVAL {day} DAY, "
        f"CONVERT_TZ(UTC_TIMESTAMP() + INTERVAL {day} DAY, '+00:00', %s)"
        for day in (0, *_DAYS)
    )
    (found,) = rows_of(connection, f"SELECT {moments}", (name,) * (len(_DAYS) + 1))
    if None in found:
        raise SourceError(
            f"source {source.name}: the server does not know its own time zone {str(name)!r}",
            source=source.name,
            next_step="Load the server's time zone tables (mysql_tzinfo_to_sql), or set its "
            "time_zone to an offset like +02:00",
        )
    return ServerZone(str(name), str(system), tuple(zip(found[::2], found[1::2], strict=True)))


def differences(zone: tzinfo, server: ServerZone) -> Iterator[tuple[datetime, datetime]]:
    """Moments (UTC) at which a zone's wall clock is another than the server's, and the server's."""
    for moment, wall in server.walls:
        if abs(wall_at(zone, moment) - wall) > _TOLERANCE:
            yield moment, wall


def wall_at(zone: tzinfo, moment: datetime) -> datetime:
    """A zone's wall clock at a moment, which is UTC; both without a zone.

    >>> wall_at(zone_of("Europe/Berlin"), datetime(2026, 7, 1))
    datetime.datetime(2026, 7, 1, 2, 0)
    """
    return moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)


def name_of_zone(server: ServerZone) -> str | None:
    """The server's zone as a contract names it; None where no known zone is like it.

    Zones that will be alike for a year are alike: which of their names it is does not matter.
    """
    if _fits(server.name, server):
        return "UTC" if server.name == "+00:00" else server.name
    fitting = [name for name in sorted(available_timezones()) if _fits(name, server)]
    places = [name for name in fitting if "/" in name and not name.startswith("Etc/")]
    for name in (*_COMMON, *places, *fitting):
        if name in fitting:
            return name
    return _offset_of(server)


def _fits(name: str, server: ServerZone) -> bool:
    try:
        return next(differences(zone_of(name), server), None) is None
    except ValueError:
        return False


def _offset_of(server: ServerZone) -> str | None:
    (moment, wall), *_ = server.walls
    minutes = round((wall - moment) / timedelta(minutes=1))
    sign = "-" if minutes < 0 else "+"
    text = f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    return text if _fits(text, server) else None


def refuse_other_zone(
    connection: Connection[Any], source: SourceConfig, table: str, column: str
) -> None:
    """See that the contract's zone is the server's, unless it says that the application keeps one
    of its own (``time_zone_of: application``).

    Raises:
        ConfigError: they differ, now or at some time within a year.
        SourceError: the server could not be queried.
    """
    if source.time_zone_of == "application":
        return
    server = read_server_zone(connection, source)
    other = next(differences(source.zone, server), None)
    if other is None:
        return
    moment, wall = other
    ours = wall_at(source.zone, moment)
    named = name_of_zone(server)
    raise ConfigError(
        f"table {table}: the server writes {column} in its own time zone ({server.words}), and the "
        f"contract's time_zone is {source.time_zone}: at {moment:%Y-%m-%d %H:%M} UTC one clock "
        f"shows {wall:%H:%M} and the other {ours:%H:%M}, so changes would be missed",
        table=table,
        column=column,
        next_step=(f"Write `time_zone: {named}`" if named else "Name the server's `time_zone`")
        + f" in source {source.name}. If the application itself writes {column} in "
        f"{source.time_zone}, whatever the server's zone, write `time_zone_of: application`",
    )
