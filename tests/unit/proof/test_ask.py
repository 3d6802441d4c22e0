"""What a check is asked for: what is wrong is refused, and never becomes a check of all rows."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.proof.comparing.report import Ask


@pytest.mark.parametrize(
    ("kind", "more", "words"),
    [
        ("wrong", {}, "there is no check of 'wrong'"),
        ("partition", {}, "needs its day, not None"),
        ("partition", {"day": "2026-11-23"}, "needs its day, not '2026-11-23'"),
        ("where", {}, "needs a condition"),
        ("where", {"where": "  "}, "needs a condition"),
    ],
)
def test_what_is_wrong_is_refused(kind: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Ask(kind, **more)


def test_what_is_right_is_taken() -> None:
    day = date(2026, 1, 31)
    asked = Ask(), Ask("next"), Ask("partition", day=day), Ask("where", where="a = 1")
    assert [one.kind for one in asked] == ["full", "next", "partition", "where"]
