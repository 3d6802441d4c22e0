"""Forecasts are medians of what was; of what was never done nothing is said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from mirrorlake.ledger import Cost, Load, Window
from mirrorlake.operations.planning.forecasts import (
    RECENT,
    Forecast,
    forecast_day,
    forecast_fold,
    forecast_partitions,
    forecast_window,
    scaled,
    summed,
)
from tests.unit.operations.test_invalid import RECEIPT, TABLE

BEGAN = datetime(2026, 1, 2, tzinfo=UTC)
FULL = Window("full", None, None, date(2026, 1, 2))
TWO_DAYS = Window("reload", "2026-01-01", "2026-01-03", date(2026, 1, 5))


def load(
    window: Window,
    rows: int,
    seconds: float,
    sent: int = 1_000,
    *,
    seq: int = 1,
    state: str = "success",
) -> Load:
    ended = BEGAN + timedelta(seconds=seconds)
    receipt = replace(RECEIPT, rows=rows, read_bytes=sent)
    return Load(
        seq, "l", 1, TABLE, state, "t_v_1", window, None, 1, BEGAN, ended, receipt, None
    )  # fmt: skip


def test_the_median_of_the_kind() -> None:
    loads = [load(FULL, rows, seconds) for rows, seconds in ((10, 1), (30, 9), (20, 2))]
    assert forecast_window(loads, "full") == Forecast(20, 1_000, 2.0, "3 copies")
    assert forecast_window(loads, "live") == Forecast()
    failed = [load(FULL, 1_000, 99, state="errored")]
    assert forecast_window([*loads, *failed], "full").rows == 20
    lost = replace(loads[0], receipt=None)
    assert forecast_window([lost], "full") == Forecast()
    old = [load(FULL, 1, 1)] * RECENT + [load(FULL, 5, 1)] * RECENT
    assert forecast_window(old, "full").rows == 5


def test_what_a_resumed_load_read_is_not_all_that_was_sent() -> None:
    assert forecast_window([load(FULL, 10, 1, sent=0)], "full").bytes is None
    assert forecast_window([load(FULL, 0, 1, sent=0)], "full").bytes == 0


def test_a_day_is_a_part_of_a_reload_or_else_of_a_first_load() -> None:
    initial = load(Window("initial", None, None, date(2026, 1, 9)), 900, 9, 9_000, seq=7)
    written = {7: {date(2026, 1, n) for n in range(1, 10)}}
    assert forecast_day([initial], written) == Forecast(100, 1_000, 1.0, "1 first load")
    assert forecast_day([initial], {}) == Forecast()
    found = forecast_day([initial, load(TWO_DAYS, 40, 6, 600, seq=8)], written)
    assert found == Forecast(20, 300, 3.0, "1 reload")
    assert found.times(3) == Forecast(60, 900, 9.0, "1 reload")


def test_a_fold_is_of_all_its_layers() -> None:
    costs = [
        Cost("deduped", 1, 10, 100, 2.0), Cost("clean", 1, 10, 50, 1.0),
        Cost("verify", 1, 10, 9_999, 99.0),
    ]  # fmt: skip
    assert forecast_fold(costs, 7) == Forecast(7, 150, 3.0, "1 fold")
    assert forecast_fold([], 7) == Forecast(7)
    of_old = [Cost("deduped", 1, 10, 100)]
    assert forecast_fold(of_old, 7) == Forecast(7, 100, None, "1 fold")


class Partition(NamedTuple):
    """A partition as it was computed."""

    key: str
    rows: int
    seconds: float


def test_a_partition_takes_what_it_took_and_a_new_one_the_median() -> None:
    records = {
        one.key: one
        for one in (Partition("a", 1, 1.0), Partition("b", 9, 5.0), Partition("c", 3, 2.0))
    }
    assert forecast_partitions(records, ["b"], [10, 30]) == Forecast(9, 20, 5.0, "3 partitions")
    assert forecast_partitions(records, ["b", "new"]) == Forecast(12, None, 7.0, "3 partitions")
    assert forecast_partitions({}, ["new"]) == Forecast()
    # A commit that was found again says no seconds.
    found = forecast_partitions({"a": Partition("a", 4, 0)}, ["a"])
    assert found == Forecast(4, None, None, "1 partition")


def test_what_is_not_known_is_counted_and_is_not_nothing() -> None:
    total = summed([Forecast(1, 2, 3.0), Forecast(4), Forecast(0, 0, 0.0)])
    assert (total.rows, total.bytes, total.seconds) == (5, 2, 3.0)
    assert total.unknown == {"bytes": 1, "seconds": 1}
    assert summed([]).unknown == {}


def test_more_rows_take_more_and_fewer_take_as_long() -> None:
    median = Forecast(10, 100, 4.0, "9 windows")
    assert scaled(median, 20) == Forecast(20, 200, 8.0, "9 windows")
    assert scaled(median, 5) == Forecast(5, 50, 4.0, "9 windows")
    assert scaled(median, None) == median
    assert scaled(Forecast(), 5) == Forecast(5)
    assert scaled(Forecast(0, 0, 1.0, "9 windows"), 5) == Forecast(5, None, 1.0, "9 windows")
