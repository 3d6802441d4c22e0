"""Metrics say what `status --strict` says, in a form that Prometheus reads, and no more."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from mirrorlake.cli.main import cli
from tests.support.recorded_mirror import DAY, RecordedMirror, at

HOSTILE = 'a"b\\c\nd{e="f"} 1'
FULL = {"mode": "full", "key": ["id"]}
NOW = datetime.now(UTC)
TODAY = NOW.date()
ROOT = Path(__file__).parents[3]
Series = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture
def mirror(tmp_path: Path) -> RecordedMirror:
    found = RecordedMirror(tmp_path, {"good": FULL, "bad": FULL, "new": FULL, HOSTILE: FULL})
    for name in ("good", "bad", HOSTILE):
        found.lease(f"shop.shop.{name}")
    found.load("shop.shop.good", at(TODAY - 3 * DAY), "full")
    found.load("shop.shop.good", NOW - timedelta(hours=1), "full", rows=7)
    found.proof("shop.shop.good", NOW - timedelta(minutes=30), rows=7)
    found.load("shop.shop.bad", NOW - timedelta(hours=2), "full", error="no room")
    found.load(f"shop.shop.{HOSTILE}", NOW - timedelta(hours=2), "full")
    found.write()
    return found


def run(mirror: RecordedMirror, *options: str) -> Result:
    config = str(mirror.folder / "mirrorlake.yaml")
    return CliRunner().invoke(cli, ["metrics", "--config", config, *options])


def series_of(text: str) -> Series:
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def of(series: Series, name: str, table: str) -> dict[str, float]:
    """A metric's values of one table, by the last label."""
    labelled = series.get(f"mirrorlake_table_{name}", {})
    mine = {labels: value for labels, value in labelled.items() if ("table", table) in labels}
    extra = [dict(labels) for labels in mine]
    for one in extra:
        one.pop("table"), one.pop("mode", "")
    return {next(iter(e.values()), ""): v for e, v in zip(extra, mine.values(), strict=True)}


def test_each_table_has_what_is_known_of_it(mirror: RecordedMirror) -> None:
    done = run(mirror)
    assert done.exit_code == 0, done.output
    series = series_of(done.output)
    assert series["mirrorlake_up"] == {(): 1}
    good, bad, new = "shop.shop.good", "shop.shop.bad", "shop.shop.new"
    assert of(series, "state", good) == {"success": 1}
    assert of(series, "state", bad) == {"errored": 1}
    assert of(series, "state", new) == {"never loaded": 1}
    # MySQL stood there 45 s before the load ended.
    as_of = of(series, "as_of_timestamp_seconds", good)[""]
    assert abs(as_of - (NOW.timestamp() - 3600 - 45)) < 5
    assert of(series, "proved_rows", good) == {"": 7}
    assert of(series, "loads_since_proof", good) == {"": 0}
    assert of(series, "day_loads", good) == {"": 1}
    assert of(series, "day_loaded_rows", good) == {"": 7}
    assert of(series, "day_loads_errored", bad) == {"": 1}
    assert of(series, "not_right", bad) == {"failed": 1}
    assert "different" not in of(series, "not_right", good)


def test_what_is_not_known_has_no_series(mirror: RecordedMirror) -> None:
    series = series_of(run(mirror).output)
    for name in (
        "as_of_timestamp_seconds",
        "proved_rows",
        "proved_as_of_timestamp_seconds",
        "rows",
    ):
        assert of(series, name, "shop.shop.new") == {}, name
    assert of(series, "as_of_timestamp_seconds", "shop.shop.bad") == {}


def test_hostile_names_stay_names(mirror: RecordedMirror) -> None:
    series = series_of(run(mirror).output)
    assert of(series, "day_loads", f"shop.shop.{HOSTILE}") == {"": 1}


def test_a_file_is_whole_or_as_it_was(mirror: RecordedMirror) -> None:
    path = mirror.folder / "mirrorlake.prom"
    assert run(mirror, "--output", str(path)).exit_code == 0
    before = path.read_text()
    assert series_of(before)["mirrorlake_up"] == {(): 1}
    (mirror.folder / "ledger.db").write_bytes(b"no database" * 100)
    failed = run(mirror, "--output", str(path))
    assert failed.exit_code != 0
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--output", "metrics.txt"], "end with .prom"),
        (["--output", "a.prom", "--serve", "0"], "exclude each other"),
    ],
)
def test_wrong_options_are_refused(mirror: RecordedMirror, options: list[str], words: str) -> None:
    done = run(mirror, *options)
    assert done.exit_code == 2
    assert words in done.output


def test_served_it_follows_the_mirror_and_says_when_it_is_lost(mirror: RecordedMirror) -> None:
    config = mirror.folder / "mirrorlake.yaml"
    command = [
        str(Path(sys.executable).with_name("mirrorlake")),
        "metrics",
        "--config",
        str(config),
    ]
    server = subprocess.Popen(
        [*command, "--serve", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[0]
        assert url.startswith("http://127.0.0.1:")
        assert "mirrorlake_table_state" in series_of(_get(url))
        (mirror.folder / "ledger.db").write_bytes(b"no database" * 100)
        lost = series_of(_get(url))
        assert lost == {"mirrorlake_up": {(): 0}}
        busy = [*command, "--serve", url.split(":")[2].split("/")[0]]
        refused = subprocess.run(busy, capture_output=True, text=True)
        assert refused.returncode != 0
        assert "Choose another port" in refused.stderr
    finally:
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=20)
    assert server.returncode == 0
    assert "ledger" in said


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - our own server
        return answer.read().decode()


def test_alert_rules_and_page_name_metrics_that_there_are(mirror: RecordedMirror) -> None:
    there = set(series_of(run(mirror).output))
    rules = (ROOT / "deploy" / "prometheus-rules.yaml").read_text()
    groups = yaml.safe_load(rules)["groups"]
    assert all(rule["expr"] and rule["alert"] for group in groups for rule in group["rules"])
    page = (ROOT / "docs" / "monitoring.md").read_text()
    for text in (rules, page):
        named = set(re.findall(r"\bmirrorlake_[a-z_]+\b", text))
        assert named
        assert named <= there | {"mirrorlake_table_rows", "mirrorlake_table_original_values"}
    assert there <= set(re.findall(r"\bmirrorlake_[a-z_]+\b", page))
