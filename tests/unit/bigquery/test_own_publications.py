"""Which loads a table in BigQuery is known by."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from mirrorlake.bigquery.api.names import publication_stem
from mirrorlake.bigquery.ledger import Publications
from mirrorlake.bigquery.loads.due import find_unpublished
from mirrorlake.bigquery.loads.settle import publications_into
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.google.tables import BigQueryTable

CONTRACT = """version: 1
bigquery: {project: my-project, bucket: my-bucket}
sources:
  s: {host: h, user: u, databases: {d: {tables: {t: {mode: full, key: [id], publish: [lake, bigquery]}}}}}
"""
FORM = '{"columns": [{"name": "id", "type": "INTEGER", "mode": "NULLABLE"}], "key": ["id"]'


@pytest.mark.parametrize(
    ("dataset", "raw", "known"),
    [("s_d", "[]", True), ("other", "[]", False), ("s_d", '[["t_v_0123456789", 7]]', False)],
    ids=["a load into the table", "a load into another dataset", "a view over raw, of before"],
)
def test_a_load_counts_for_its_own_table_alone(
    tmp_path: Path, dataset: str, raw: str, known: bool
) -> None:
    """A view over raw, which releases before 0.1.0 made, is replaced by all rows of deduped."""
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(CONTRACT, encoding="utf-8")
    config = load_config(path)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    stem = publication_stem(BigQueryTable("my-project", dataset, "t"), 5)
    form = f'{FORM}, "raw": {raw}}}'
    begun = Publications(ledger).begin(stem, "s.d.t", 5, None, "", form)
    Publications(ledger).ended(begun.id)
    target = BigQueryTable("my-project", "s_d", "t")
    assert bool(publications_into(ledger, "s.d.t", target)) is known

    def head(table: Identifier) -> int:
        assert table == Identifier("s_d", "t")
        return 5

    due = find_unpublished(config, head, ledger, config.tables, {}, datetime(2026, 1, 1))
    assert [one.why for one in due] == ([] if known else ["it was never loaded into BigQuery"])
