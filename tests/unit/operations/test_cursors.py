"""What a sensor remembers survives releases and hands."""

from __future__ import annotations

import json
import logging

import pytest

from dagster_mirrorlake.landing.sensor import LandedCursor
from mirrorlake.operations.cursors import cursor_text, read_cursor
from mirrorlake.operations.days.unfolded import FoldCursor, FoldRequest
from mirrorlake.operations.loading.detect import Mark

MARK = Mark("2026-01-01T00:00:00", 7, None, "d", "2026-01-02T00:00:00", "2026-01-02T00:00:00")
FOLDED = FoldCursor(3, {"s.d.t": FoldRequest(9, {"t_v_1": 5, "t_v_2": None}, "2026-01-01")})


@pytest.mark.parametrize(
    ("kind", "remembered"),
    [
        (dict[str, Mark], {"s.d.t": MARK, "s.d.ü": MARK}),
        (FoldCursor, FOLDED),
        (LandedCursor, LandedCursor(20260101000000, (1, 2))),
        (LandedCursor, LandedCursor()),
    ],
)
def test_what_was_written_is_read(kind: type[object], remembered: object) -> None:
    text = cursor_text(remembered)
    assert read_cursor(kind, text, None) == remembered
    assert cursor_text(read_cursor(kind, text, None)) == text, "one text for one thing"


def test_cursors_of_the_release_before_are_read() -> None:
    """As 0.1 wrote them."""
    landed = '{"newest": 20260101000000, "late": [20260101000000]}'
    assert read_cursor(LandedCursor, landed, LandedCursor()).late == (20260101000000,)
    folded = (
        '{"asked": {"s.d.t": {"at": "2026-01-01", "heads": {"t_v_1": 5, "t_v_2": null}, '
        '"through": 9}}, "floor": 3}'
    )
    assert read_cursor(FoldCursor, folded, FoldCursor()) == FOLDED
    assert cursor_text(FOLDED) == folded


def test_a_field_that_a_release_dropped_is_left_out() -> None:
    text = cursor_text(FOLDED).replace('"floor": 3', '"floor": 3, "gone": [1]')
    assert read_cursor(FoldCursor, text, FoldCursor()) == FOLDED


@pytest.mark.parametrize("text", ["{", "7", '{"floor": "many"}', '{"s.d.t": {}}', "null"])
def test_what_cannot_be_read_is_forgotten_and_reported(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert read_cursor(dict[str, Mark], text, {}) == {}
    assert "can't be read, and is forgotten" in caplog.text


@pytest.mark.parametrize("time", ["yesterday", "", "2026-01-01T00:00:00Z"])
def test_a_time_that_is_none_is_forgotten_too(time: str) -> None:
    """It would stop every later look, and the cursor would stay."""
    text = cursor_text({"s.d.t": MARK}).replace(f'"{MARK.asked_at}"', json.dumps(time), 1)
    assert read_cursor(dict[str, Mark], text, {}) == {}


@pytest.mark.parametrize("text", [None, ""])
def test_a_first_look_remembers_nothing(text: str | None) -> None:
    assert read_cursor(FoldCursor, text, FoldCursor()) == FoldCursor()
