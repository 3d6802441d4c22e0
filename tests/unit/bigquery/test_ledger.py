"""Loads into BigQuery, as the ledger keeps them, and what is said of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirrorlake.bigquery.ledger import Publications
from mirrorlake.bigquery.publisher import publication_proved
from mirrorlake.errors import LedgerError
from mirrorlake.ledger import LayerProof, Ledger

TABLE = "s.shop.t"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path}/ledger.db")


def test_a_publication_is_found_until_it_ends(ledger: Ledger) -> None:
    publications = Publications(ledger)
    begun = publications.begin("a_b_7", TABLE, 7, None, "it is the first load", "{}")
    assert begun.id.startswith("a_b_7_1-")
    other = publications.begin("axb_7", "s.shop.u", 7, 3, "", "{}")
    assert publications.newest() == {TABLE: begun, "s.shop.u": other}
    staged = publications.staged(begun.id, 3, 30, 300)
    assert (staged.state, staged.staged, staged.rows, staged.bytes) == ("pending", 3, 30, 300)
    assert publications.ended(begun.id, "the bucket is gone").state == "errored"
    again = publications.begin("a_b_7", TABLE, 7, None, "the load before failed", "{}")
    assert again.id.startswith("a_b_7_2-")
    ended = publications.ended(again.id)
    assert (ended.state, ended.error, ended.completed_at is not None) == ("success", None, True)
    assert [one.state for one in publications.of_table(TABLE)] == ["success", "errored"]
    with pytest.raises(LedgerError, match="no publication x"):
        publications.ended("x")


def test_what_bigquery_has_is_proved_as_of_its_newest_check(ledger: Ledger) -> None:
    publications = Publications(ledger)
    publications.ended(publications.begin("a", "s.d.t", 7, None, "", "{}").id)
    assert publication_proved(ledger, "s.d.t") is None
    now = datetime.now(UTC)
    proof = LayerProof(
        *("c", "s.d.t", "bigquery", "equal", "", "", 3, "", 3, "", "deduped 7", 0, "1", now, 0.1)
    )
    ledger.record_layer_proofs([proof])
    found = publication_proved(ledger, "s.d.t")
    assert found is not None
    assert (found.rows, found.whole, found.loads_since) == (3, True, 0)
    publications.ended(publications.begin("a", "s.d.t", 8, 7, "", "{}").id)
    found = publication_proved(ledger, "s.d.t")
    assert found is not None
    assert found.words.endswith(", 1 load since")


def test_a_ledger_before_days_were_kept(tmp_path: Path, ledger: Ledger) -> None:
    Publications(ledger).newest()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as file:
        file.execute("ALTER TABLE publications DROP COLUMN days")
        file.execute("UPDATE mirrorlake_meta SET value = '12' WHERE name = 'version'")
        file.commit()
    opened = Ledger(ledger.url)
    assert Publications(opened).begin("stem", TABLE, 1, None, "", "{}").days is None
