"""A report as one HTML page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from mirrorlake import __version__
from mirrorlake.report.calendar import STATES, DayRun, count_days
from mirrorlake.report.charts import CODES, bars, calendar, legend, strip, top_of
from mirrorlake.report.figures import (
    PROOFS,
    MirrorReport,
    ReportedTable,
    ReportFinding,
    ReportWritten,
    TableProof,
    age_words,
    size_words,
)
from mirrorlake.runtime.pages.page import render_page, write_page
from mirrorlake.runtime.plural import plural

_LISTED: Final = 24
"""Stretches of days, findings and copies of a table that are listed, at most; of many tables a
quarter of it."""
_OPEN: Final = 3
"""With so many tables each is open from the beginning."""
_TITLES: Final = 40
"""With so many tables each cell of a calendar says by itself what a list below says, too."""
_BADGES: Final[dict[TableProof, tuple[str, str]]] = {
    "proved": ("P", "p"),
    "stale": ("S", "s"),
    "partly": ("½", "l"),
    "different": ("D", "d"),
    "undecided": ("?", "n"),
    "unknown": ("U", "u"),
    "not compared": ("–", "n"),
}
"""The sign of a table, and its colour."""
_CALENDARS: Final = 300
"""With so many tables each has a calendar with letters beside its strip."""
_Chart: TypeAlias = tuple[str, Sequence[float | None], str]
"""Its head, its numbers, and a note."""


def write_report(path: Path, report: MirrorReport, option: str) -> ReportWritten:
    """Write the page, whole or not at all.

    Args:
        option: by which somebody named its file.

    Raises:
        ConfigError: it can't be written, or somebody else's file is there.
    """
    page = report_page(report, path)
    return ReportWritten(
        path=str(path),
        bytes=write_page(path, page, option),
        made_at=report.made_at,
        first=report.first,
        last=report.last,
        tables=len(report.tables),
        proofs={str(name): count for name, count in report.proofs.items()},
        days={str(name): count for name, count in report.days.items()},
        not_right=len(report.not_right),
    )


def report_page(report: MirrorReport, path: Path) -> str:
    """The page; links to evidence are relative to where it is to be."""
    folder = path.resolve().parent
    most = _LISTED if len(report.tables) <= _TITLES else _LISTED // 4
    tables = [_Shown(one, folder, most) for one in report.tables]
    values = {
        "report": report,
        "tables": tables,
        "numbers": {one.table: n for n, one in enumerate(report.tables, 1)},
        "calendars": len(tables) <= _CALENDARS,
        "most_calendars": _CALENDARS,
        "open": len(tables) <= _OPEN,
        "states": {name: words for name, words in STATES.items() if name != "none"},
        "proofs": PROOFS,
        "codes": CODES,
        "badges": _BADGES,
        "uncompared": sum(one.proof is None for one in report.tables),
        "total_days": sum(report.days.values()),
        "first_day": f"{report.first:%-d %b}",
        "last_day": f"{report.last:%-d %b}",
        "version": __version__,
    }
    filters = {
        "strip": lambda runs: strip(runs, report.first),
        "bars": bars,
        "legend": legend,
        "calendar": partial(calendar, titles=len(tables) <= _TITLES),
        "moment": _moment,
        "size": size_words,
        "number": _number,
        "count_of": plural,
    }
    title = f"Mirror report {report.name}, {report.last}"
    return render_page(Path(__file__).parent, "report", title, values, filters)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _number(count: float | None) -> str:
    return "–" if count is None else f"{count:,.0f}"


@dataclass(frozen=True)
class _ShownFinding:
    """A finding with its sign, and where each evidence file is from the page; None: it is gone."""

    of: ReportFinding
    code: tuple[str, str]
    links: Sequence[tuple[str, str | None]]


class _Shown:
    """A table in the page's words."""

    def __init__(self, of: ReportedTable, folder: Path, most: int) -> None:
        self.of, self._folder, self._status = of, folder, of.status
        self.badge = ("M", "m") if of.proof is None else _BADGES[of.proof]
        counted = ", ".join(f"{n:,} {state}" for state, n in count_days(of.days).items())
        self.days_words = f"{plural(sum(run.days for run in of.days), 'day')}: {counted or 'none'}"
        self.days_head = "Days of copies" if of.by_copies else "Days of rows"
        told = [run for run in reversed(of.days) if run.state != "none"]
        self.runs: Sequence[DayRun] = told[:most]
        self.more_runs = len(told) - len(self.runs)
        self.copies = [*reversed(of.copies)][:most]
        self.more_copies = len(of.copies) - len(self.copies)
        self.copies_head = "Partitions" if of.proof is None else "Snapshots"
        self.findings = [self._finding(one) for one in of.findings[:most]]
        self.more_findings = len(of.findings) - len(self.findings)

    @property
    def badge_words(self) -> str:
        """What is known of it as a whole."""
        of, proved = self.of, self._status.proved if self._status else None
        if of.proof == "different" and of.differences:
            return plural(of.differences, "row differs", "rows differ")
        if of.proof == "stale" and proved is not None:
            many = {"copy": "copies"}.get(proved.unit)
            return f"stale: {plural(proved.loads_since, proved.unit, many)} since"
        if of.proof == "partly" and proved is not None:
            return f"partly: {plural(proved.rows, 'row')}"
        return of.proof or "model"

    # --- what status says -----------------------------------------------------------------------

    @property
    def state(self) -> str:
        """The newest load's, where it is not simply good."""
        state = self._status.state if self._status else ""
        return "" if state in ("success", "mirrored", "published") else state

    @property
    def rows(self) -> str:
        return _number(self._status.rows if self._status else None)

    @property
    def age(self) -> str:
        return age_words(self._status.freshness if self._status else None)

    @property
    def checks(self) -> str:
        return self._status.checks.rstrip("-") if self._status else ""

    @property
    def last_load(self) -> str:
        last = self._status.last_load if self._status else None
        return last[:16].replace("T", " ") if last else ""

    @property
    def published(self) -> str:
        found = self._status.published if self._status else {}
        parts = [
            f"{name}: {one.words or one.state}" for name, one in found.items() if one is not None
        ]
        return " ".join(f"{part}." for part in parts)

    # --- cost, and what there is over time ------------------------------------------------------

    @property
    def written(self) -> str:
        return size_words(self.of.history.lake_written) if self.of.history else "–"

    @property
    def source_time(self) -> str:
        return age_words(self.of.history.source_seconds) if self.of.history else "–"

    @property
    def cost(self) -> list[tuple[str, str]]:
        """What loads and checks took."""
        found: list[tuple[str, str]] = []
        if (h := self.of.history) is not None and h.loads:
            failed = f", {h.errored:,} failed" if h.errored else ""
            again = f", {plural(h.retries, 'retry', 'retries')}" if h.retries else ""
            visible = f"{self.of.proved_loads:,} of {h.loads - h.errored:,} loads"
            found = [
                ("loads", f"{h.loads:,}{failed}{again}"),
                ("proved before visible", visible),
                ("rows read", f"{h.rows:,}"),
                (
                    "a load, mean and longest",
                    f"{age_words(h.mean_seconds)}, {age_words(h.longest_seconds)}",
                ),
                ("MySQL's time, at least", age_words(h.source_seconds)),
                ("longest query", age_words(h.longest_query)),
                ("written to the lake", size_words(h.lake_written)),
                ("scanned by Spark", size_words(h.lake_scanned)),
            ]
        if (c := self.of.checks) is not None and c.count:
            verdicts = ", ".join(f"{n:,} {verdict}" for verdict, n in c.verdicts.items())
            found += [
                ("checks", verdicts),
                ("time of checks", age_words(c.seconds)),
                ("sent by MySQL for them", size_words(c.bytes)),
            ]
        seconds = sum(one.seconds or 0.0 for one in self.of.copies)
        return found or ([("time of computing", age_words(seconds))] if seconds else [])

    @property
    def charts(self) -> list[_Chart]:
        """Each chart that has anything to show."""
        if (loaded := self.of.loaded) is None:
            return self._charts_of_copies()
        lines: list[tuple[str, Sequence[float | None], Any]] = [
            ("Rows of the newest copy" if loaded.copies else "Rows read", loaded.rows, _number),
            ("Bytes written to raw", loaded.bytes, size_words),
            ("Lag of loads", loaded.behind, age_words),
        ]
        return [_chart(*line) for line in lines if any(line[1])]

    def _charts_of_copies(self) -> list[_Chart]:
        if not self.of.days:
            return []
        first = self.of.days[0].first
        count = sum(run.days for run in self.of.days)
        rows: list[float | None] = [None] * count
        sizes: list[float | None] = [None] * count
        for one in self.of.copies:
            number = (one.at.date() - first).days
            if 0 <= number < count and one.shown and not one.failed:
                rows[number] = (rows[number] or 0) + (one.rows or 0)
                sizes[number] = (sizes[number] or 0) + (one.bytes or 0)
        lines = (("Rows of copies", rows, _number), ("Bytes of copies", sizes, size_words))
        return [_chart(*line) for line in lines if any(line[1])]

    # --- what was found -------------------------------------------------------------------------

    @property
    def nothing_found(self) -> str:
        """What is said where no difference was found: not that there is none."""
        if self.of.proof is None:
            return "models are compared with nothing; what their expectations found is below"
        count = self.of.checks.count if self.of.checks else 0
        if self.of.tenant_count or not count:
            return "no check of these days is recorded; not compared is not equal"
        return f"no difference: {plural(count, 'check')} of these days, in what was compared"

    def _finding(self, one: ReportFinding) -> _ShownFinding:
        if one.kind == "found":
            code = _BADGES["different"]
        else:
            code = ("R", "p") if one.good else ("R", "d") if one.good is False else ("R", "n")
        links = [(path, self._link(path)) for path in one.evidence if path]
        return _ShownFinding(one, code, links)

    def _link(self, evidence: str) -> str | None:
        path = Path(evidence)
        if not path.exists():
            return None
        relative = os.path.relpath(path.resolve(), self._folder)
        return quote(Path(relative).as_posix(), safe="/")


def _chart(head: str, values: Sequence[float | None], words: Callable[[Any], str]) -> _Chart:
    highest, top = top_of(values)
    cut = f"; drawn up to {words(top)}" if top < highest else ""
    return head, values, f"a day, at most {words(highest)}{cut}"
