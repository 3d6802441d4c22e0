"""Cuts in a ledger: listed once they are whole, and never under two meanings."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirrorlake.cuts.ledger import Cut, CutKey, CutKeys, Cuts, CutTable
from mirrorlake.cuts.make import NAME, _plain
from mirrorlake.cuts.report import reads_of
from mirrorlake.errors import ConfigError, LedgerError
from mirrorlake.ledger import Ledger

NOW = datetime(2026, 11, 30, 8, 15, tzinfo=UTC)
CUT = Cut("first", "shop", "bin.000003:81220", "0-1-4711", NOW, NOW, NOW + timedelta(days=7))
TABLE = CutTable("shop.shop.orders", "deduped", "shop_shop", "orders", 8**20, 12)


@pytest.fixture
def cuts(tmp_path: Path) -> Cuts:
    return Cuts(Ledger(f"sqlite:///{tmp_path}/ledger.db"))


def test_a_cut_is_listed_once_it_is_whole(cuts: Cuts) -> None:
    cuts.begin(CUT)
    cuts.add("first", [TABLE])
    assert cuts.all() == []
    (begun,) = cuts.all("shop", made=False)
    assert begun.tables == (TABLE,)
    proved = replace(TABLE, proved="equal", words="12 rows, all compared")
    cuts.add("first", [proved, replace(TABLE, layer="clean", snapshot_id=None, rows=None)])
    cuts.finish("first")
    (made,) = cuts.all()
    assert [one.layer for one in made.tables] == ["deduped", "clean"]
    assert made.tables[0] == proved
    assert replace(made, tables=(), made_at=NOW) == CUT
    assert (made.tag, made.names) == ("cut_first", ["shop.shop.orders"])
    assert (cuts.all("other"), cuts.all(made=False)) == ([], [])
    cuts.forget("first")
    assert (cuts.all(), cuts.all(made=False)) == ([], [])


def test_foreign_keys_are_kept_and_none_is_not_the_same_as_not_looked_at(cuts: Cuts) -> None:
    names = ("a", "b")
    for name in names:
        cuts.begin(replace(CUT, name=name))
        cuts.finish(name)
    key = CutKey("s.a.b", "f", ("x", "y, z"), "s.a.c", ("u", "v"), "orphans", 3, 0, "3 rows")
    kept = CutKeys((key, replace(key, name="g", orphans=None, in_mysql=None)), ("s.a.d",))
    for found in (CutKeys(), kept):
        cuts.add_keys("b", found)
        assert [one.foreign_keys for one in cuts.all()] == [None, found]
    assert kept.with_orphans == [*kept.keys]
    cuts.forget("b")
    cuts.begin(replace(CUT, name="b"))
    cuts.finish("b")
    assert [one.foreign_keys for one in cuts.all()] == [None, None]


def test_a_name_is_given_once(cuts: Cuts) -> None:
    cuts.begin(CUT)
    with pytest.raises(LedgerError, match="there is a cut first already"):
        cuts.begin(replace(CUT, source="other"))


def test_cuts_are_in_the_order_in_which_they_were_made(cuts: Cuts) -> None:
    for number, name in enumerate(("b", "a", "c")):
        made = NOW + timedelta(seconds=number)
        cuts.begin(replace(CUT, name=name, made_at=made, keep_until=None))
        cuts.finish(name)
    assert [one.name for one in cuts.all()] == ["b", "a", "c"]
    assert {one.keep_until for one in cuts.all()} == {None}


@pytest.mark.parametrize(
    ("source", "name"),
    [("shop", "shop"), ("Shop-EU", "shop_eu"), ("7", "cut_7"), ("läden", "l_den"), ("é", "cut")],
)
def test_a_source_without_a_plain_name_begins_one_that_is(source: str, name: str) -> None:
    assert _plain(source) == name
    assert NAME.fullmatch(f"{_plain(source * 40)}_20261130_081500")


def test_a_table_of_a_cut_is_called_as_its_contract_is_or_shorter() -> None:
    other = replace(TABLE, table="shop.eu.orders")
    cut = replace(CUT, tables=(TABLE, replace(TABLE, layer="clean"), other))
    assert cut.tables_called(None) == [*cut.tables]
    assert cut.tables_called("shop.orders") == [TABLE, replace(TABLE, layer="clean")]
    assert cut.tables_called("shop.eu.orders") == [other]
    with pytest.raises(ConfigError, match=r"2 tables are called 'orders' in cut first.*shop\.eu"):
        cut.tables_called("orders")
    with pytest.raises(ConfigError, match=r"no table is called 'rders'.*shop\.shop\.orders"):
        cut.tables_called("rders")


def test_what_reads_a_table_at_a_cut_has_its_name_quoted() -> None:
    reads = reads_of(CUT, TABLE)
    assert reads["Spark"] == "SELECT * FROM lake.shop_shop.orders VERSION AS OF 'cut_first'"
    assert reads["Trino"] == "SELECT * FROM shop_shop.orders FOR VERSION AS OF 'cut_first'"
    odd = reads_of(CUT, replace(TABLE, lake_table='Order "Lines`ü'))
    assert odd["Spark"].startswith('SELECT * FROM lake.shop_shop.`Order "Lines``ü` VERSION')
    assert odd["Trino"].startswith('SELECT * FROM shop_shop."Order ""Lines`ü" FOR VERSION')
    assert "load_table(('shop_shop', 'Order \"Lines`ü'))" in odd["PyIceberg"]
