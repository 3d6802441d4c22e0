"""A server's wall clock, held against zones by name."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mirrorlake.config import zone_of
from mirrorlake.sources.mysql.sessions.zones import ServerZone, differences, name_of_zone, wall_at

WINTER, SUMMER = datetime(2026, 1, 5, 12), datetime(2026, 7, 5, 12)


def server(zone: str, name: str = "SYSTEM", start: datetime = WINTER) -> ServerZone:
    moments = [start + timedelta(days=day) for day in range(0, 371, 7)]
    return ServerZone(name, "", tuple((at, wall_at(zone_of(zone), at)) for at in moments))


def test_a_zone_that_is_the_same_today_alone_is_another_one() -> None:
    [first, *_] = differences(ZoneInfo("UTC"), server("Europe/London"))
    assert first[0] == datetime(2026, 3, 30, 12)
    assert list(differences(ZoneInfo("Europe/London"), server("Europe/London"))) == []


@pytest.mark.parametrize(
    ("zone", "said", "name"),
    [
        ("UTC", "+00:00", "UTC"),
        ("UTC", "SYSTEM", "UTC"),
        ("+05:30", "+05:30", "+05:30"),
        ("Asia/Kolkata", "SYSTEM", "Asia/Kolkata"),
        ("Europe/Vienna", "Europe/Vienna", "Europe/Vienna"),
        ("Europe/Vienna", "SYSTEM", "Europe/Berlin"),
        ("Pacific/Chatham", "SYSTEM", "Pacific/Chatham"),
        ("-01:20", "SYSTEM", "-01:20"),
        # A name that says something else to the server than to us is not taken.
        ("Asia/Tokyo", "Europe/Berlin", "Asia/Tokyo"),
    ],
)
@pytest.mark.parametrize("start", [WINTER, SUMMER])
def test_the_servers_zone_by_name(zone: str, said: str, name: str, start: datetime) -> None:
    found = name_of_zone(server(zone, said, start))
    assert found == name or list(differences(zone_of(str(found)), server(zone, said, start))) == []
    assert (found == name) or said == "SYSTEM"


def test_a_zone_that_nobody_knows_has_no_name() -> None:
    turning = [(WINTER + timedelta(days=n), WINTER + timedelta(days=n, minutes=n)) for n in (0, 9)]
    assert name_of_zone(ServerZone("SYSTEM", "", tuple(turning))) is None


@pytest.mark.parametrize("name", ["+15:00", "+5", "Europe/Berln", "../../etc", "", "+05:60"])
def test_what_is_no_zone(name: str) -> None:
    with pytest.raises(ValueError, match=r"zone|relative|keys"):
        zone_of(name)


def test_offsets() -> None:
    assert [zone_of(text).utcoffset(None) for text in ("+14:00", "-3:30")] == [
        timedelta(hours=14),
        -timedelta(hours=3, minutes=30),
    ]
