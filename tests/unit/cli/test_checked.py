"""What `check` and `repair` of every table print: a line for each, and details where they matter."""

from __future__ import annotations

import pytest

from mirrorlake.cli import reports, show
from mirrorlake.cli.reports import Checked, print_checked


def test_a_table_that_is_equal_has_one_line_and_others_their_details(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show.console, "width", 80)
    details: list[str] = []
    names = [f"shop.shop.table_{n}" for n in range(10)]

    def checked(name: str) -> Checked:
        verdict = "different" if name.endswith("3") else "equal"
        notes = ("1 row waits",) if name.endswith("5") else ()
        return Checked(name, verdict, {}, lambda: details.append(name), (1_200, 1_199), notes)

    print_checked([checked(name) for name in names])
    assert details == [names[3]]
    printed = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    for name in names:
        lines = [line for line in printed if name in line]
        assert len(lines) == (2 if name == names[5] else 1)
    assert printed[-1] == f"{names[5]}: 1 row waits"
    assert max(map(len, printed)) <= 80
    assert len(printed) == 2 + 10 + 1
    assert set(reports.CODES) == set(reports.COLORS)
