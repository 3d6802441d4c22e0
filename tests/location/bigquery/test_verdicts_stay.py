"""A verdict on a table in BigQuery stays shown until another load is there."""

from pathlib import Path

import pytest

from dagster_mirrorlake.bigquery.checks import EQUALS, bigquery_checks
from dagster_mirrorlake.bigquery.reports import bigquery_reporter
from dagster_mirrorlake.build import Mirror
from mirrorlake.bigquery.ledger import Publications
from mirrorlake.config import load_config
from mirrorlake.ledger import Ledger
from tests.location.test_verdicts_of_all import stays_until_changed

TEXT = """
version: 1
ledger: {url: "sqlite:///ledger.db"}
bigquery: {project: project, bucket: bucket, location: EU}
sources:
  s:
    host: 127.0.0.1
    user: u
    password: ${env:TEST_PASSWORD}
    databases: {d: {tables: {t: {mode: full, key: [id], publish: [lake, bigquery]}}}}
"""


def load(ledger: Ledger, version: int) -> None:
    publications = Publications(ledger)
    publications.ended(publications.begin("stem", "s.d.t", version, None, "first", "{}").id)


def test_it_stays_until_another_load_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PASSWORD", "p")
    (tmp_path / "mirrorlake.yaml").write_text(TEXT)
    mirror = Mirror(load_config(tmp_path / "mirrorlake.yaml"))
    reporter = bigquery_reporter(mirror)
    assert reporter is not None
    (asset,) = reporter.checked()
    assert [*asset.checks] == [key for one in bigquery_checks(mirror) for key in one.check_keys]
    stays_until_changed(Ledger(mirror.config.ledger.url), asset, EQUALS, load)
