"""Charts as inline SVG: a strip of days, and bars. Each is one colour with a name in words; what a
strip says is in the shape of its parts as well."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from markupsafe import Markup

from mirrorlake.report.calendar import DayRun, DayState

_DAY: Final = timedelta(days=1)
_WIDTH: Final = 4
"""Of a day in a chart; a third of it is the space to the next."""
_HIGH: Final = 20
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
"""From where and how high: a full bar, a low one, a low one that is cut, two halves, one that hangs,
one in the middle, a line."""
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
        f'<path class="{_class(state)}" d="{"".join(some)}"/>'
        for state, some in paths.items()
        if some
    )
    return _svg(count * _WIDTH, _HIGH, drawn)


def bars(values: Sequence[float | None]) -> Markup:
    """A number a day as bars, oldest first; the highest fills the height."""
    top = max((value or 0.0 for value in values), default=0.0)
    parts: list[str] = []
    for number, value in enumerate(values):
        if value and top:
            height = max(1, round(32 * value / top))
            parts.append(f"M{number * _WIDTH} 32v-{height}h3v{height}")
    return _svg(len(values) * _WIDTH, 32, f'<path d="{"".join(parts)}"/>')


def legend(state: DayState) -> Markup:
    """A state as a strip shows it."""
    boxes = "".join(_box(0, top, 3 * _WIDTH, high) for top, high in _SHAPES[state])
    return _svg(3 * _WIDTH, _HIGH, f'<path class="{_class(state)}" d="{boxes}"/>')


def weeks(runs: Sequence[DayRun]) -> list[list[tuple[date, DayRun] | None]]:
    """The days of a calendar as seven rows, Monday first, with a column for each week; None where a
    column begins before the first day, or ends after the last."""
    days = [(run.first + n * _DAY, run) for run in runs for n in range(run.days)]
    if not days:
        return []
    before: list[tuple[date, DayRun] | None] = [None] * days[0][0].weekday()
    cells = [*before, *days]
    cells += [None] * (-len(cells) % 7)
    return [cells[row::7] for row in range(7)]


def months(runs: Sequence[DayRun]) -> list[tuple[str, int]]:
    """The months above a calendar's columns, each with how many columns it stands over."""
    rows = weeks(runs)
    found: list[tuple[str, int]] = []
    for column in range(len(rows[0]) if rows else 0):
        cells = [row[column] for row in rows]
        day = next(cell[0] for cell in cells if cell is not None)
        name = f"{day:%b}"
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1] + 1)
        else:
            found.append((name, 1))
    return found


def _box(left: int, top: int, width: int, height: int) -> str:
    return f"M{left} {top}h{width}v{height}h-{width}z"


def _class(state: DayState) -> str:
    return CODES[state].lower()


def _svg(width: int, height: int, drawn: str) -> Markup:
    """Only numbers and our own words are in it."""
    return Markup(  # noqa: S704 - ours
        f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" aria-hidden="true" '
        f'focusable="false">{drawn}</svg>'
    )
