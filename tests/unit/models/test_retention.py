"""Which partitions a model keeps, and which readers would look for others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from mirrorlake.errors import ModelError
from mirrorlake.models.cache.scope_rules import ModelRule
from mirrorlake.models.compile.computable_from import PartitionReader
from mirrorlake.models.compile.dependencies import rule_of
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.scope_values.comprehension import ScopeValues, text_of
from mirrorlake.models.scope_values.on_demand import ScopeProduct
from mirrorlake.models.scope_values.partition_index import PartitionIndex
from mirrorlake.models.scope_values.retention import Retention, moment_of, split_scopes
from tests.unit.models.test_project import NOW, compiled, contract  # noqa: F401 - fixtures

Compiled = Callable[..., Project]


def days(first: date, last: date, *, month: bool = False) -> list[date]:
    found = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    return [day for day in found if day.day == 1] if month else found


@pytest.mark.parametrize(
    ("retention", "now", "kept"),
    [
        (Retention(0, timedelta(days=2), "2d"), datetime(2024, 3, 5, tzinfo=UTC), 2),
        # Until a moment before, the third ended less than two days ago.
        (Retention(0, timedelta(days=2), "2d"), datetime(2024, 3, 4, 23, 59, tzinfo=UTC), 3),
        (Retention(1, timedelta(0), "P1M"), datetime(2024, 3, 5, tzinfo=UTC), 5),
        # The newest has no end.
        (Retention(0, timedelta(hours=1), "1h"), datetime(2030, 1, 1, tzinfo=UTC), 1),
    ],
)
def test_those_that_ended_long_enough_ago_are_gone(
    retention: Retention, now: datetime, kept: int
) -> None:
    values = days(date(2024, 2, 29), date(2024, 3, 4))
    scopes = ScopeProduct({"day": values, "shop": ["a", "b"]})
    stay, gone = split_scopes(scopes, "day", retention, now)
    assert [scope["day"] for scope in stay] == [d for d in values[-kept:] for _ in "ab"]
    assert len(stay) + len(gone) == len(scopes)
    listed = split_scopes([*scopes], "day", retention, now)
    assert [[*part] for part in listed] == [[*stay], [*gone]]


def test_months_are_the_calendars() -> None:
    months = days(date(2023, 11, 1), date(2024, 3, 31), month=True)
    scopes = ScopeProduct({"month": months})
    retention = Retention(1, timedelta(0), "P1M")
    for now, first in (
        (datetime(2024, 3, 31, tzinfo=UTC), "2024-02-01"),
        (datetime(2024, 2, 29, tzinfo=UTC), "2024-01-01"),
        (datetime(2024, 3, 1, tzinfo=UTC), "2024-02-01"),
    ):
        stay, _ = split_scopes(scopes, "month", retention, now)
        assert text_of(stay[0]["month"]) == first, now


DAILY = """---
retention: {retention}
for: {{day: "TIMESERIES('2024-01-01', CURRENT_DATE, '{period}')"}}
---
SELECT id FROM s_d.sales WHERE DATE(sold_at) = day"""
READERS = {
    "same day": ("P1D", "day = of_day"),
    "a week": ("P1D", "day BETWEEN DATE_SUB(of_day, 6) AND of_day"),
    "its month": ("P1M", "day >= of_day AND day < ADD_MONTHS(of_day, 1)"),
    "the month before": ("P1M", "day >= ADD_MONTHS(of_day, -1) AND day < of_day"),
    "month to date": ("P1D", "day BETWEEN TRUNC(of_day, 'MM') AND of_day"),
    "a year": ("P1D", "day BETWEEN ADD_MONTHS(of_day, -12) AND of_day"),
}
READER = """---
for: {{of_day: "TIMESERIES('2024-01-01', CURRENT_DATE, '{period}')"}}
---
SELECT id FROM m.daily WHERE {where}"""


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_that_compiles_finds_what_it_reads_on_each_day_of_a_year(
    compiled: Compiled,  # noqa: F811
    reader: str,
) -> None:
    """Whoever looks back further than is kept is refused; who is not finds all partitions when its
    own time is over, and a period later."""
    period, where = READERS[reader]
    accepted = 0
    for retention in (2, 3, 8, 9, 32, 33, 63, 64, 94, 95, 400):
        project = compiled(
            m__daily=DAILY.format(retention=f"{retention}d", period="P1D"),
            m__reader=READER.format(period=period, where=where),
        )
        fits = not project.problems
        accepted += fits
        assert fits == _always_there(retention, period, where), (retention, project.problems)
    assert accepted


def _always_there(retention: int, period: str, where: str) -> bool:
    """By brute force, with the calendar alone."""
    months = period == "P1M"
    starts = days(date(2024, 1, 1), date(2025, 12, 31), month=months)
    for begin, end in pairwise(starts):
        over = end + (end - begin)
        if over > date(2025, 4, 1):
            break
        oldest = _first_read(begin, where)
        # It ended a day later; nothing is before the first day there is.
        ended = max(oldest, date(2024, 1, 1)) + timedelta(days=1)
        if ended <= over - timedelta(days=retention):
            return False
    return True


def _first_read(day: date, where: str) -> date:
    back = {"DATE_SUB(of_day, 6)": 6}
    for words, number in back.items():
        if words in where:
            return day - timedelta(days=number)
    if "TRUNC" in where:
        return day.replace(day=1)
    if "-12" in where:
        return (day - timedelta(days=366 if day.month > 2 else 365)).replace(day=min(day.day, 28))
    if "-1)" in where:
        return (day - timedelta(days=1)).replace(day=1)
    return day


ZONE = "'Europe/Paris'"
EDGES = {
    # name: (the bindings of the reader, its partitions, what it reads)
    "a name made of its day": (
        "{of_day: \"TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')\", since: 'DATE_SUB(of_day, 6)', "
        "until: of_day}",
        "[of_day]",
        "day BETWEEN since AND until",
    ),
    "shops": (
        "{of_day: \"TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')\", shop: [a, b, c]}",
        "[of_day, shop]",
        "day > DATE_SUB(of_day, IF(shop = 'b', 9, 3)) AND day <= of_day",
    ),
    "weeks": (
        "{week: \"TIMESERIES('2024-01-01', CURRENT_DATE, 'P1W')\"}",
        "[week]",
        "day >= week AND day < DATE_ADD(week, 7)",
    ),
    "quarters": (
        "{q: \"TIMESERIES('2023-01-01', CURRENT_DATE, 'P3M')\", last: 'LAST_DAY(ADD_MONTHS(q, 2))'}",
        "[q]",
        "day BETWEEN q AND last",
    ),
    "months that end where a day may not be": (
        "{m: \"TIMESERIES('2023-10-31', CURRENT_DATE, 'P1M')\"}",
        "[m]",
        "day BETWEEN ADD_MONTHS(m, -1) AND m",
    ),
    "the last days": ("{until: CURRENT_DATE}", "[]", "day >= DATE_SUB(until, 5)"),
    "the last days, by shop": (
        "{until: CURRENT_DATE, shop: [a, b]}",
        "[shop]",
        "day >= DATE_SUB(until, 5) AND shop <> 'c'",
    ),
    "its days, and the clock": (
        "{of_day: \"TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')\", today: CURRENT_DATE}",
        "[of_day]",
        "(day >= of_day OR day >= DATE_SUB(today, 4)) AND day <= of_day",
    ),
    "months to today": (
        "{today: CURRENT_DATE}",
        "[today]",
        "day >= TRUNC(ADD_MONTHS(today, -1), 'MM')",
    ),
    "days of a zone": (
        "{at: \"TIMESERIES('2024-01-01 00:00:00', CURRENT_TIMESTAMP, 'P1D', " + ZONE + ')"}',
        "[at]",
        "day >= DATE(at) AND day <= DATE_ADD(DATE(at), 1)",
    ),
    "hours": (
        "{at: \"TIMESERIES('2024-02-01 00:00:00', CURRENT_TIMESTAMP, 'PT6H')\"}",
        "[at]",
        "day = DATE(at)",
    ),
}
EDGE = """---
for: {bindings}
partition_by: {by}
---
SELECT id FROM m.daily WHERE {where}"""
ZONED = """---
retention: {retention}
for: {{day: "TIMESERIES('2024-01-01', CURRENT_TIMESTAMP, 'P1D', 'Europe/Paris')"}}
---
SELECT id FROM s_d.sales WHERE sold_at >= day AND sold_at < day + INTERVAL 1 DAY"""


@pytest.mark.full
@pytest.mark.parametrize("edge", EDGES)
def test_the_shortest_retention_that_is_named_suffices_on_each_day_of_a_year(
    compiled: Compiled,  # noqa: F811
    edge: str,
) -> None:
    """What compiles reads nothing that is gone, on any day on which it can be computed."""
    bindings, by, where = EDGES[edge]
    reader = EDGE.format(bindings=bindings, by=by, where=where)
    refused = compiled(m__daily=DAILY.format(retention="1h", period="P1D"), m__reader=reader)
    shortest = _named(refused)
    project = compiled(m__daily=DAILY.format(retention=shortest, period="P1D"), m__reader=reader)
    assert not project.problems
    assert _reads_gone(project, compiled) is None
    number, unit = int(shortest[:-1]), shortest[-1]
    less = f"{number - 1}{unit}"
    project = compiled(m__daily=DAILY.format(retention=less, period="P1D"), m__reader=reader)
    assert _named(project) == shortest


def test_days_of_a_zone_are_kept_by_when_they_begin(compiled: Compiled) -> None:  # noqa: F811
    reader = EDGE.format(
        bindings="{at: \"TIMESERIES('2024-01-01', CURRENT_TIMESTAMP, 'P1D', " + ZONE + ')"}',
        by="[at]",
        where="day >= at - INTERVAL 3 DAYS AND day <= at",
    )
    shortest = _named(compiled(m__daily=ZONED.format(retention="1h"), m__reader=reader))
    project = compiled(m__daily=ZONED.format(retention=shortest), m__reader=reader)
    assert not project.problems
    assert _reads_gone(project, compiled) is None


def _named(project: Project) -> str:
    [problem] = project.problems
    assert "m/reader.sql:5:" in problem.message
    return problem.next_step.split("`retention: ")[1].split("`")[0]


def _reads_gone(project: Project, compiled: Compiled) -> str | None:  # noqa: F811
    """A partition that could be computed on some day, and reads what is gone by then."""
    daily, reader = project.models["m.daily"], project.models["m.reader"]
    assert daily.declaration.retention is not None
    for number in range(384):  # 400 days, at each hour
        now = NOW + number * timedelta(hours=25)
        all_of = daily.declaration.scopes.all(now)
        _, gone = split_scopes(all_of, "day", daily.declaration.retention, now)
        index = PartitionIndex.of(gone, daily.declaration.partition_by, daily.key_of)
        for scope in _alive(reader, now):
            rule, day = rule_of(project, compiled.catalogue, reader, scope)  # type: ignore[attr-defined]
            for one in rule.inputs:
                assert isinstance(one, ModelRule)
                if index.within(one.at(day)):
                    return f"{now}: {reader.key_of(scope)}: {index.within(one.at(day))}"
    return None


def _alive(reader: Model, now: datetime) -> list[ScopeValues]:
    """The partitions whose time is not over by then, or was not so long ago as it lasted."""
    scopes = [*reader.declaration.scopes.all(now)][-40:]
    times = [name for name in reader.declaration.partition_by if isinstance(scopes[0][name], date)]
    if not times:
        return scopes
    later = reader.declaration.scopes.all(now + timedelta(days=200))
    begins = sorted({moment_of(scope[times[0]]) for scope in later})
    ends = {a: b + (b - a) for a, b in pairwise(begins)}
    return [s for s in scopes if ends.get(moment_of(s[times[0]]), now + timedelta(1)) > now]


def test_what_is_wrong_with_a_retention_is_said_with_its_place(compiled: Compiled) -> None:  # noqa: F811
    header = "---\nretention: {}\n{}---\nSELECT id FROM s_d.sales"
    of_days = "for: {day: \"TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')\"}\n"
    for retention, rest, words in (
        ("2 weeks", of_days, "m/a.sql:2:"),
        ("0d", of_days, "longer than nothing"),
        ("P0D", of_days, "is no period"),
        ("9d", "", "and this one by none"),
        ("9d", "for: {shop: [a, b]}\n", "and this one by none"),
        (
            "9d",
            "for: {a: \"DATE'2024-01-01'\", b: \"DATE'2024-01-01'\"}\n",
            "and this one by 2: a, b",
        ),
        ("9d", "materialized: view\n", "a view has no rows of its own"),
    ):
        try:
            project = compiled(m__a=header.format(retention, rest))
        except ModelError as error:
            found = str(error)
        else:
            found = str(project.problems)
        assert words in found, (retention, rest, found)


def test_a_view_shows_what_is_there(compiled: Compiled) -> None:  # noqa: F811
    project = compiled(
        m__daily=DAILY.format(retention="9d", period="P1D"),
        m__shown="---\nmaterialized: view\n---\nSELECT id FROM m.daily",
        m__all="SELECT COUNT(*) AS n FROM m.daily",
    )
    assert list(project.models) == ["m.daily", "m.shown"]
    [problem] = project.problems
    assert "reads all partitions of m.daily" in problem.message
    assert "m/all.sql:1:" in problem.message
    assert len(project.models["m.daily"].scopes) == 9
    assert NOW.date() - timedelta(days=9) == date(2024, 2, 24)
    assert project.models["m.daily"].key_of(project.models["m.daily"].scopes[0]) == "day=2024-02-24"


def test_a_table_of_what_a_view_shows_would_lose_what_goes(compiled: Compiled) -> None:  # noqa: F811
    """A view has no partitions: with each that goes, all that was made of it would be made again,
    without. A snapshot takes what is there, and it stays."""
    of_view = "---\n{}\n---\nSELECT COUNT(*) AS n FROM m.above"
    project = compiled(
        m__daily=DAILY.format(retention="9d", period="P1D"),
        m__shown="---\nmaterialized: view\n---\nSELECT id, day FROM m.daily",
        m__above="---\nmaterialized: view\n---\nSELECT id FROM m.shown WHERE day > '2024-03-01'",
        m__all=of_view.format("description: all"),
        m__taken=of_view.format(
            "materialized: snapshot\n"
            "for: {on_day: \"TIMESERIES('2024-03-01', CURRENT_DATE, 'P1D')\"}"
        ),
    )
    assert set(project.models) == {"m.daily", "m.shown", "m.above", "m.taken"}
    [problem] = project.problems
    assert "m/all.sql:4:27: it reads all partitions of m.daily, by the view m.above" in str(problem)


def test_what_reads_the_same_for_ever_is_told_to_go_with_time(compiled: Compiled) -> None:  # noqa: F811
    project = compiled(
        m__daily=DAILY.format(retention="P20Y", period="P1D"),
        m__years='---\nfor: {y: "RANGE(2024, 2030)"}\n---\n'
        "SELECT COUNT(*) AS n FROM m.daily WHERE YEAR(day) = y",
        m__since="SELECT COUNT(*) AS n FROM m.daily WHERE day >= '2024-03-03'",
    )
    assert list(project.models) == ["m.daily"]
    assert {one.next_step for one in project.problems} == {
        "Bound day by names under `for` that go with time"
    }


def test_partitions_of_long_ago_are_looked_at_too(compiled: Compiled) -> None:  # noqa: F811
    project = compiled(
        m__daily=DAILY.format(retention="9d", period="P1D"),
        m__then="---\nfor: {of_day: \"TIMESERIES('2024-01-20', '2024-02-01', 'P1D')\"}\n---\n"
        "SELECT id FROM m.daily WHERE day BETWEEN DATE_SUB(of_day, 10) AND of_day",
    )
    [problem] = project.problems
    assert "m.then of_day=2024-01-20 reads m.daily from day=2024-01-10 on" in str(problem)
    assert "`retention: 12d`" in problem.next_step


def test_many_names_beside_the_days_are_looked_at_once(compiled: Compiled) -> None:  # noqa: F811
    shops = ", ".join(f"s{number}" for number in range(300))
    project = compiled(
        m__daily=DAILY.format(retention="9d", period="P1D"),
        m__wide="---\nfor: {of_day: \"TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')\", shop: ["
        f"{shops}]}}\n---\nSELECT id FROM m.daily WHERE day = of_day AND CAST(id AS STRING) = shop",
    )
    wide = project.models["m.wide"]
    look = pytest.fail
    reader = PartitionReader(wide.declaration.scopes, ("of_day",), wide.rules, look, NOW)
    assert len([*reader.of("m.daily", "day")]) < 500
