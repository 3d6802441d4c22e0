"""Charts as inline SVG: a strip of days, and bars. Each is one colour with a name in words; what a
strip says is in the shape of its parts as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import groupby
from typing import Final

from markupsafe import Markup, escape

from mirrorlake.report.calendar import DayRun, DayState
from mirrorlake.runtime.pages.page import plain

_DAY: Final = timedelta(days=1)
_WIDTH: Final = 4
"""Of a day in a chart; a third of it is the space to the next."""
_HIGH: Final = 20
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHAPES: Final[dict[DayState, Sequence[tuple[int, int]]]] = {
    "proved": ((0, 20),),
    "loaded": ((9, 11),),
    "stale": ((9, 4), (16, 4)),
    "different": ((0, 8), (12, 8)),
    "errored": ((0, 9),),
    "unknown": ((7, 6),),
    "not asked": ((18, 2),),
    "none": (),
}
"""From where and how high: a full bar, a low one, a low one that is cut, two halves, one that
hangs, one in the middle, a line."""
CODES: Final[dict[DayState, str]] = {
    "proved": "P",
    "loaded": "L",
    "stale": "S",
    "different": "D",
    "errored": "E",
    "unknown": "U",
    "not asked": "N",
    "none": "",
}
"""The letter of a state, in calendars."""


def strip(runs: Sequence[DayRun], first: date) -> Markup:
    """The days as bars, oldest first; bars of one run touch one another in all but a hair."""
    paths: dict[DayState, list[str]] = {}
    for run in runs:
        left = (run.first - first).days * _WIDTH
        boxes = [_box(left, top, run.days * _WIDTH - 1, high) for top, high in _SHAPES[run.state]]
        paths.setdefault(run.state, []).extend(boxes)
    count = sum(run.days for run in runs)
    drawn = "".join(
        f'<path class={_class(state)} d="{"".join(some)}"/>'
        for state, some in paths.items()
        if some
    )
    return _svg(count * _WIDTH, _HIGH, drawn)


def top_of(values: Sequence[float | None]) -> tuple[float, float]:
    """The highest of numbers, and what fills a chart's height: where a few are far above all others
    (a first load), they are cut, or nobody would see the others."""
    known = sorted(value for value in values if value)
    if not known:
        return 0.0, 0.0
    usual = 1.25 * known[-1 - len(known) // 12]
    return known[-1], usual if known[-1] > 3 * usual else known[-1]


def bars(values: Sequence[float | None]) -> Markup:
    """A number a day as steps, oldest first; none is a gap."""
    _, top = top_of(values)
    parts, level = ["M0 32"], 0
    for height, days in _heights(values, top):
        if height != level:
            parts.append(f"v{level - height}")
            level = height
        parts.append(f"h{days}")
    parts.append(f"v{level}z")
    return _svg(len(values), 32, f'<path d="{"".join(parts)}"/>')


def _heights(values: Sequence[float | None], top: float) -> Iterator[tuple[int, int]]:
    """Heights, each with how many days follow one another with it."""
    heights = (min(32, max(1, round(32 * value / top))) if value and top else 0 for value in values)
    for height, same in groupby(heights):
        yield height, sum(1 for _ in same)


def legend(state: DayState) -> Markup:
    """A state as a strip shows it."""
    boxes = "".join(_box(0, top, 3 * _WIDTH, high) for top, high in _SHAPES[state])
    return _svg(3 * _WIDTH, _HIGH, f'<path class={_class(state)} d="{boxes}"/>')


def calendar(runs: Sequence[DayRun], caption: str, *, titles: bool) -> Markup:
    """The days as a table with a row for each weekday and a column for each week; each has its
    state's letter.

    Args:
        titles: whether each cell says what it means by itself.
    """
    days = [(run.first + n * _DAY, run) for run in runs for n in range(run.days)]
    if not days:
        return Markup()
    before = days[0][0].weekday()
    count = -(-(before + len(days)) // 7)
    cells = [_cell(day, run, titles) for day, run in days]
    cells = ["<td>"] * before + cells + ["<td>"] * (7 * count - before - len(days))
    rows = "".join(f"<tr><th scope=row>{_WEEKDAYS[n]}{''.join(cells[n::7])}" for n in range(7))
    heads = "".join(
        f"<th scope=col colspan={span}>{name}" if span > 1 else "<td>"
        for name, span in _months(days[0][0] - before * _DAY, count)
    )
    return Markup(  # noqa: S704 - ours, but for what is escaped
        f'<table class="cal"><caption class="unseen">{escape(caption)}</caption>'
        f"<thead><tr><td>{heads}</thead><tbody>{rows}</tbody></table>"
    )


def _cell(day: date, run: DayRun, titles: bool) -> str:
    code = CODES[run.state]
    words = f"; {run.words}" if run.words else ""
    title = f' title="{escape(plain(f"{day}: {run.state}{words}"))}"' if titles else ""
    return f"<td class={code.lower() or 'o'}{title}>{code or '·'}"


def _months(monday: date, weeks: int) -> list[tuple[str, int]]:
    """The months above a calendar's columns, each with how many columns it stands over."""
    names = [f"{monday + 7 * n * _DAY + 6 * _DAY:%b}" for n in range(weeks)]
    return [(name, sum(1 for _ in same)) for name, same in groupby(names)]


def _box(left: int, top: int, width: int, height: int) -> str:
    return f"M{left} {top}h{width}v{height}h-{width}z"


def _class(state: DayState) -> str:
    return CODES[state].lower()


def _svg(width: int, height: int, drawn: str) -> Markup:
    """Only numbers and our own words are in it."""
    return Markup(  # noqa: S704 - ours
        f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio=none aria-hidden=true>'
        f"{drawn}</svg>"
    )
