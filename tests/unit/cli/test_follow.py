"""What is printed of a round of `follow`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mirrorlake.cli import follow
from mirrorlake.errors import MirrorlakeError
from mirrorlake.operations.following.followed_round import FollowedRound

QUIET = FollowedRound(
    at=datetime(2026, 1, 2, 3, 4, 5),
    lag_seconds=0.0,
    lag_bytes=0,
    rows={},
    changed={},
    failed={},
    seconds=0.1,
    load_seconds=0.1,
    place="",
    reached=True,
)


def test_a_lag_is_not_said_of_tables_that_are_further_behind() -> None:
    quiet = "03:04:05 UTC · lag 0.0 s, 0 bytes · nothing new · 0.1 s"
    assert follow._words(QUIET) == quiet
    none = replace(QUIET, lag_seconds=None, lag_bytes=None)
    said = "03:04:05 UTC · no table is followed yet · nothing new · 0.1 s"
    assert follow._words(none) == said
    away = replace(QUIET, left_out=("s.a", "s.b"))
    assert follow._words(away) == f"{quiet} · 2 tables further behind"
    failed = replace(away, failed={"s.a": MirrorlakeError("s.a", next_step="Look")})
    assert follow._words(failed) == f"{quiet} · 1 table failed · 1 table further behind"
