"""A glance at a ledger while a location loads: the tables' first days, and no ledger made or
migrated; and what an older ledger's first days become when it is."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import TableContract, default_namespaces
from mirrorlake.config.partitions import EARLIEST, days_in, first_day_of, partition_of
from mirrorlake.ledger import LEDGER_VERSION, Ledger, RawFile, Receipt, Window
from mirrorlake.ledger.database.peek import first_days

RECEIPT = Receipt(1, 1, 1, "0", "2026-03-10 01:00:00", None, "server", "", 0, 0, 0.0)
DAY = date(2026, 3, 10)


def contract_of(name: str, **fields: Any) -> TableContract:
    named = {"source": "s", "database": "d", "table": name, "mode": "append", "cursor": "at"}
    return TableContract(**{**named, "namespaces": default_namespaces("s", "d"), **fields})


def load(ledger: Ledger, table: str, lo: str | None, days: list[date]) -> None:
    window = Window("initial", lo, None, DAY)
    load_id = ledger.create_load(table, window)
    with ledger.lease(table, "run") as lease:
        started = ledger.start_load(load_id, lease, "run", "raw", None)
    names = [f"_mirror_day={day}/{load_id}-1-00000.parquet" for day in days]
    files = [RawFile(name, "raw", started.seq, 1, 1, "0") for name in names]
    ledger.record_raw_files(table, [*files, RawFile("aside.parquet", "raw", started.seq, 1, 1, "")])
    ledger.finish_load(started, 1, RECEIPT)


@pytest.fixture
def ledger(tmp_path: Path) -> tuple[Ledger, Path, str]:
    path = tmp_path / "ledger with space.db"
    url = f"sqlite:///{path}"
    ledger = Ledger(url)
    load(ledger, "s.d.rows", None, [date(2013, 1, 2), date(2013, 1, 1)])
    load(ledger, "s.d.from", "2020-05-01 00:00:00", [])
    load(ledger, "s.d.empty", None, [])
    load(ledger, "s.d.strange", None, [date(1000, 1, 1)])
    return ledger, path, url


CONTRACTS = [contract_of(name) for name in ("rows", "from", "empty", "strange", "never")]
KNOWN = {
    "s.d.rows": date(2013, 1, 1),
    "s.d.from": date(2020, 5, 1),
    "s.d.empty": DAY,
    "s.d.strange": EARLIEST,
}


def test_the_ledger_tells_where_partitions_begin(ledger: tuple[Ledger, Path, str]) -> None:
    assert first_days(ledger[2], CONTRACTS, 1) == KNOWN


def test_the_contract_wins_and_nothing_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"no database at all")
    contracts = [
        contract_of("a", partitions_from=date(1000, 1, 1)),
        contract_of("b", start=date(2024, 1, 1), partitions_from=date(2023, 1, 1)),
        contract_of("c", start=date(2024, 1, 1), partitions_from=date(2025, 1, 1)),
    ]
    found = first_days(f"sqlite:///{path}", contracts, 1)
    assert list(found.values()) == [date(1000, 1, 1), date(2024, 1, 1), date(2025, 1, 1)]


def test_a_ledger_that_is_not_there_is_not_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert first_days(f"sqlite:///{tmp_path / 'none' / 'ledger.db'}", CONTRACTS, 1) == {}
    assert not list(tmp_path.iterdir())
    assert not caplog.records, "a first run is no fault"


@pytest.mark.parametrize("url", ["postgresql://u@127.0.0.1:1/x", "mysql://u@127.0.0.1:1/x"])
def test_one_that_does_not_answer_is_a_warning(url: str, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("psycopg")
    with caplog.at_level(logging.WARNING):
        assert first_days(url, CONTRACTS, 1) == {}
    assert "first days" in caplog.text


def test_one_that_is_locked_is_a_warning(
    ledger: tuple[Ledger, Path, str], caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(ledger[1])) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert first_days(ledger[2], CONTRACTS, 0.2) == {}
    assert "locked" in caplog.text


def _age(path: Path, version: int) -> None:
    """As an older release left it."""
    with closing(sqlite3.connect(path)) as old:
        old.execute("DROP TABLE settled")
        old.execute("DROP TABLE first_days")
        if version < 8:
            old.execute("DROP TABLE raw_files")
        old.execute("DELETE FROM mirrorlake_meta WHERE name = 'identity'")
        old.execute("UPDATE mirrorlake_meta SET value = ? WHERE name = 'version'", [str(version)])
        old.commit()


def test_an_older_ledger_is_read_and_not_migrated(ledger: tuple[Ledger, Path, str]) -> None:
    _, path, url = ledger
    _age(path, 8)
    assert first_days(url, CONTRACTS, 1) == KNOWN
    with closing(sqlite3.connect(path)) as old:
        query = "SELECT value FROM mirrorlake_meta WHERE name = 'version'"
        assert old.execute(query).fetchone() == ("8",)
    again = Ledger(url)
    assert again.first_days() == {**KNOWN, "s.d.strange": date(1000, 1, 1)}
    assert again.settled_since(0).found == ()
    assert again.settled_since(0).ledger
    with closing(sqlite3.connect(path)) as new:
        assert new.execute(query).fetchone() == (str(LEDGER_VERSION),)


def test_one_without_recorded_files_tells_what_its_loads_do(
    ledger: tuple[Ledger, Path, str],
) -> None:
    _, path, url = ledger
    _age(path, 7)
    found = first_days(url, CONTRACTS, 1)
    assert found == {**KNOWN, "s.d.rows": DAY, "s.d.strange": DAY}
    # Raw tells better, once somebody has looked there.
    ledger_again = Ledger(url)
    ledger_again.lower_first_day("s.d.rows", date(2013, 1, 1))
    ledger_again.lower_first_day("s.d.rows", date(2014, 1, 1))
    assert first_days(url, CONTRACTS, 1)["s.d.rows"] == date(2013, 1, 1)


def test_a_month_is_a_partition() -> None:
    month = contract_of("m", partition="month")
    assert partition_of(month, date(2024, 2, 29)) == date(2024, 2, 1)
    assert len(list(days_in(month, date(2024, 2, 10)))) == 29
    assert list(days_in(contract_of("d"), DAY)) == [DAY]
    assert list(days_in(month, date.max))[-1] == date.max
    assert first_day_of(month, None) is None
