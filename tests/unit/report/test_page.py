"""The page says what it was given, whatever names and errors hold, and asks nobody for anything."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.status.all_tables import named_tables
from mirrorlake.report.collect import make_report
from mirrorlake.report.figures import MirrorReport
from mirrorlake.report.page.write import report_page
from mirrorlake.runtime.pages.page import plain
from tests.support.recorded_mirror import DAY, RecordedMirror, at, windows

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\u2066'\"&amp;{{ 7*7 }}"
TODAY = datetime.now(UTC).date()
INCREMENTAL = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
FULL = {"mode": "full", "key": ["id"]}


class Elements(HTMLParser):
    """Names of elements, attributes and their values."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def made(mirror: RecordedMirror, days: int = 90) -> MirrorReport:
    config, ledger = mirror.write()
    tables = named_tables(config, ())
    return make_report(config, ledger, tables, days=days, besides=True)


def test_hostile_names_and_errors_are_text(tmp_path: Path) -> None:
    mirror = RecordedMirror(tmp_path, {HOSTILE: FULL})
    name = f"shop.shop.{HOSTILE}"
    mirror.lease(name)
    mirror.load(name, at(TODAY - DAY), "full", error=HOSTILE)
    mirror.proof(name, at(TODAY - DAY), "different", differences=1, evidence=f"/x/{HOSTILE}.json")
    page = report_page(made(mirror), tmp_path / "report.html")
    found = Elements(page)
    assert "img" not in found.names
    assert found.names.count("script") == 1
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "src"]
    assert not {"\u202e", "\u2066"} & set(page)
    assert "[U+202E][U+2066]" in found.text
    assert plain(HOSTILE) in found.text  # as it is, and no template of its own


def test_nothing_is_fetched(tmp_path: Path) -> None:
    mirror = RecordedMirror(tmp_path, {"orders": INCREMENTAL})
    windows(mirror, "shop.shop.orders", TODAY - 20 * DAY, TODAY)
    page = report_page(made(mirror), tmp_path / "report.html")
    found = Elements(page)
    contents = [value or "" for name, value in found.attributes if name == "content"]
    assert "://" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert contents[0].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in contents[0]
    assert not {"link", "iframe", "object", "img", "base"} & set(found.names)
    links = [value for name, value in found.attributes if name == "href"]
    assert all(link and link.startswith("#t") for link in links), links
    assert not [name for name, _ in found.attributes if name == "style"]


def test_figures_are_those_of_status_and_history(tmp_path: Path) -> None:
    """The page, the command line and the ledger say the same."""
    mirror = RecordedMirror(tmp_path, {"orders": INCREMENTAL, "products": FULL, "new": INCREMENTAL})
    orders, products = "shop.shop.orders", "shop.shop.products"
    windows(mirror, orders, TODAY - 30 * DAY, TODAY, rows=100)
    mirror.load(orders, at(TODAY, 8), lo=str(TODAY), error="lost")
    mirror.lease(products)
    for age in (9, 6, 3):
        mirror.load(products, at(TODAY - age * DAY), "full", rows=10 * age, bytes=7 * age)
    mirror.proof(products, at(TODAY - 3 * DAY, 9))
    report = made(mirror, days=8)
    config = str(tmp_path / "mirrorlake.yaml")

    def run(*arguments: str) -> list[dict[str, object]]:
        result = CliRunner().invoke(cli, [*arguments, "--json", "--config", config])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    by_name = {one.table: one for one in report.tables}
    for status in run("status"):
        one = by_name[str(status["table"])].status
        assert one is not None
        assert (one.state, one.rows, one.checks) == (
            status["state"],
            status["rows"],
            status["checks"],
        )
    first = datetime.combine(report.first, datetime.min.time(), UTC)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    for name, one in by_name.items():
        loads = [x for x in ledger.loads(name) if x.started_at >= first]
        good = [x.receipt for x in loads if x.receipt]
        history = one.history
        assert history is not None
        assert history.loads == len(loads)
        assert history.errored == sum(x.state == "errored" for x in loads)
        assert history.rows == sum(r.rows for r in good)
        assert history.lake_written == sum(r.bytes for r in good) + sum(
            c.written for c in ledger.costs(name, first)
        )
        if one.loaded and not one.loaded.copies:
            assert sum(n or 0 for n in one.loaded.rows) == history.rows
        assert one.loaded is None or sum(one.loaded.bytes) == sum(r.bytes for r in good)
    assert [x.state for x in by_name[products].days if x.state != "none"] == ["loaded", "proved"]
    assert by_name[products].loaded.rows == [None, 60, None, None, 30, None, None, None]  # type: ignore[union-attr]
    # Each day of `gaps` is a day of the page, of tables that have days.
    gaps = run("gaps", "--all")
    states = {"not asked": "not asked", "errored": "errored", "loaded": "loaded"}
    for one in report.tables:
        for run_ in one.days if not one.by_copies else ():
            (gap,) = [
                g
                for g in gaps
                if g["table"] == one.table
                and (g["first"] is None or str(g["first"]) <= str(run_.first))
                and str(g["last"]) >= str(run_.last)
            ]
            assert states[str(gap["state"])] == run_.state


def test_past_what_differs_is_found_and_repaired(tmp_path: Path) -> None:
    mirror = RecordedMirror(tmp_path, {"orders": INCREMENTAL})
    name = "shop.shop.orders"
    windows(mirror, name, TODAY - 20 * DAY, TODAY)
    evidence = tmp_path / ".mirrorlake" / "a b.json"
    evidence.parent.mkdir()
    evidence.write_text("{}")
    mirror.proof(name, at(TODAY - DAY, 7), "different", differences=3, evidence=str(evidence))
    report = made(mirror)
    assert (report.tables[0].proof, report.tables[0].differences) == ("different", 3)
    mirror.rows.clear()
    mirror.repair(name, at(TODAY - DAY, 8), "equal", 3, "/gone/x.json")
    mirror.proof(name, at(TODAY, 9), before=TODAY - DAY)
    report = made(mirror)
    (one,) = report.tables
    assert one.proof == "proved"
    assert [(f.kind, f.good) for f in one.findings] == [("repair", True), ("found", False)]
    page = report_page(report, tmp_path / "out" / "report.html")
    assert 'href="../.mirrorlake/a%20b.json"' in page
    assert "evidence is not here any more" in page


def test_bad_input_is_one_error_and_writes_nothing(tmp_path: Path) -> None:
    mirror = RecordedMirror(tmp_path, {"orders": INCREMENTAL})
    mirror.write()
    config, page = str(tmp_path / "mirrorlake.yaml"), tmp_path / "report.html"

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["report", *arguments, "--config", config])
        assert result.exit_code != 0
        return f"{result.output} {result.exception}"

    assert "ordres" in run("ordres", "--output", str(page))
    assert "--days" in run("--days", "0", "--output", str(page))
    assert "--output" in run("--output", str(tmp_path))
    page.write_text("<html>mine</html>")
    assert "is no page of Mirrorlake's" in run("--output", str(page))
    assert page.read_text() == "<html>mine</html>"
    (tmp_path / "file").write_text("x")
    assert "can't be written" in run("--output", str(tmp_path / "file" / "page.html"))
    page.unlink()
    for _ in range(2):  # a page of ours is replaced
        result = CliRunner().invoke(cli, ["report", "--output", str(page), "--config", config])
        assert result.exit_code == 0, result.output
    assert page.stat().st_size > 5_000
    assert not [*tmp_path.glob(".mirrorlake-page*")]


def test_days_are_those_that_were_asked(tmp_path: Path) -> None:
    mirror = RecordedMirror(tmp_path, {"orders": INCREMENTAL, "products": FULL})
    windows(mirror, "shop.shop.orders", TODAY - 20 * DAY, TODAY)
    report = made(mirror, days=1)
    assert (report.first, report.last) == (report.made_at.date(), report.made_at.date())
    assert all(sum(run.days for run in one.days) == 1 for one in report.tables)
    assert sum(report.days.values()) == 1  # of `products` there are days of copies alone


@pytest.mark.parametrize("days", [0, -3, 801, 10**9])
def test_days_that_no_page_can_show_are_one_error(tmp_path: Path, days: int) -> None:
    mirror = RecordedMirror(tmp_path, {"orders": INCREMENTAL})
    with pytest.raises(ConfigError, match=f"can't show {days:,} of them.*Ask for 1 to 800"):
        made(mirror, days=days)


@pytest.mark.parametrize("late", [3, 103, -100])
def test_a_load_since_counts_whatever_its_clock_said(tmp_path: Path, late: int) -> None:
    mirror = RecordedMirror(tmp_path, {"orders": INCREMENTAL})
    name = "shop.shop.orders"
    mirror.lease(name)
    mirror.load(name, at(TODAY - 5 * DAY), "initial", hi=str(TODAY - 5 * DAY))
    mirror.proof(name, at(TODAY - 4 * DAY), before=TODAY - 4 * DAY)
    bounds = {"lo": str(TODAY - 9 * DAY), "hi": str(TODAY - 8 * DAY)}
    mirror.load(name, at(TODAY - late * DAY), **bounds)
    (one,) = made(mirror, days=14).tables
    proved = [run for run in one.days if run.state == "proved"]
    assert one.proof == "stale"
    assert [run.last for run in proved] == [TODAY - 11 * DAY]
    assert {run.state for run in one.days if run.first > proved[0].last} >= {"stale"}


@pytest.mark.parametrize("late", [3, 103])
def test_a_later_check_counts_whatever_its_clock_said(tmp_path: Path, late: int) -> None:
    mirror = RecordedMirror(tmp_path, {"orders": INCREMENTAL})
    name = "shop.shop.orders"
    windows(mirror, name, TODAY - 20 * DAY, TODAY)
    mirror.proof(name, at(TODAY - 4 * DAY), before=TODAY - 4 * DAY)
    mirror.proof(name, at(TODAY - late * DAY), "different", differences=2)
    (one,) = made(mirror, days=14).tables
    assert (one.proof, one.differences) == ("different", 2)
    assert not [run for run in one.days if run.state == "proved"]


@pytest.mark.full
def test_a_thousand_tables_are_five_megabytes(tmp_path: Path) -> None:
    names = [f"table_{n}" for n in range(1000)]
    mirror = RecordedMirror(tmp_path, {n: [INCREMENTAL, FULL][i % 2] for i, n in enumerate(names)})
    for number, table in enumerate(names):
        name = f"shop.shop.{table}"
        if number % 2:
            mirror.lease(name)
            for age in range(89, -1, -1):
                mirror.load(name, at(TODAY - age * DAY), "full", rows=100 + age, bytes=60 * age)
        else:
            windows(mirror, name, TODAY - 90 * DAY, TODAY, 40 + number % 60)
        for age in range(90, 0, -3):
            verdict = "equal" if age % 30 else "different"
            before = TODAY - (age + 1) * DAY
            mirror.proof(name, at(TODAY - age * DAY, 3), verdict, before=before)
    page = report_page(made(mirror), tmp_path / "report.html")
    assert len(page.encode()) < 5_000_000
    assert page.count('<details class="table"') == 1000


def test_signs_nobody_sees_are_named() -> None:
    assert plain("a\u200bb\u0000c\ud800") == "a[U+200B]b[U+0000]c[U+D800]"
    assert plain("käse 漢字 😀 العربية") == "käse 漢字 😀 العربية"
