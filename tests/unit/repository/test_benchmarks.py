"""The benchmarks name what the engine has: they are run seldom, and nothing else imports them. The
pages of figures, and their charts, are made of what is kept."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from click.testing import CliRunner

from benchmarks import report
from benchmarks.__main__ import main
from tests.soak import report as soak_report
from tools.plots import Bar, bar_chart


def test_the_benchmarks_can_be_started() -> None:
    done = CliRunner().invoke(main, ["--help"])
    assert done.exit_code == 0, done.output
    assert "tenants" in done.output


def test_the_page_and_its_charts_are_made_of_the_kept_figures() -> None:
    records = report.kept_records()
    assert report.PAGE.read_text("utf-8") == report.page(records)
    drawn = report.plots(records)
    assert len(drawn) > 8
    for name, chart in {**drawn, **soak_report.plots()}.items():
        path = report.PAGE.parent / "images" / "plots" / name
        assert path.read_text("utf-8") == chart, f"run: python -m tools.reference ({name})"
        assert len(ElementTree.fromstring(chart).findall(".//{*}rect")) > 2  # noqa: S314 - ours
    shown = set(re.findall(r"images/plots/([\w.-]+)", report.page(records) + soak_report.page()))
    assert {path.name for path in path.parent.glob("*")} == shown == {*drawn, *soak_report.plots()}


def test_a_chart_says_what_it_shows_and_begins_at_zero() -> None:
    chart = bar_chart(
        "T <1>", "s", [Bar("ours", [(2, "a")], "2 s", (1, 4)), Bar("x", [(1, "b")], "1")]
    )
    assert "<desc>ours: 2 s; x: 1</desc>" in chart
    assert "T &lt;1&gt;" in chart
    lengths = re.findall(r'class="[ab]" x="340.0" y="\d+" width="([\d.]+)"', chart)
    assert lengths == ["170.0", "85.0"]
