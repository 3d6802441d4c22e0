"""What `check` and `repair` of every table print: a line for each, and details where they matter."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mirrorlake.cli import reports, show
from mirrorlake.cli.main import cli
from mirrorlake.cli.reports import Checked, print_checked
from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError
from tests.unit.operations.test_queries import filled


def test_a_table_that_is_equal_has_one_line_and_others_their_details(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(show.console, "width", 80)
    details: list[str] = []
    names = [f"shop.shop.table_{n}" for n in range(10)]

    def checked(name: str) -> Checked:
        verdict = "different" if name.endswith("3") else "equal"
        notes = ("may show personal data: mail",) if name.endswith("5") else ()
        waiting = 7 if name.endswith("4") else 0
        show_it = lambda: details.append(name)  # noqa: E731
        return Checked(name, verdict, {}, show_it, (1_200, 1_199), notes, waiting)

    print_checked([checked(name) for name in names])
    assert details == [names[3]]
    printed = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    for name in names:
        lines = [line for line in printed if name in line]
        assert len(lines) == (2 if name == names[5] else 1)
    assert printed[-1] == f"{names[5]}: may show personal data: mail"
    assert printed[0].split()[-1] == "waiting"
    assert [line.split()[-1] for line in printed[2:12]] == [*"----7-----"]
    assert max(map(len, printed)) <= 80
    assert len(printed) == 2 + 10 + 1
    assert set(reports.CODES) == set(reports.COLORS)


def test_rows_that_differ_fill_no_screens(capsys: pytest.CaptureFixture[str]) -> None:
    reports.print_rows([f"row [{n}] differs" for n in range(100)], 20, "--json lists them")
    printed = capsys.readouterr().out.splitlines()
    assert (printed[0], printed[-1]) == ("row [0] differs", "and 80 more: --json lists them")
    assert len(printed) == 21


@pytest.mark.parametrize("repairable", [True, False])
def test_a_repair_is_the_next_step_only_where_it_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repairable: bool
) -> None:
    config, _ = filled(tmp_path / "place", 2)

    def checked(_: object, contract: TableContract, *_rest: object) -> Checked:
        said = (contract.name, "different", {}, lambda: None, (1, 1))
        return Checked(*said, repairable=repairable)

    monkeypatch.setattr("mirrorlake.cli.checking.check.check_chosen", checked)
    monkeypatch.setattr("mirrorlake.cli.checking.check.open_contract", lambda _: config)
    done = CliRunner().invoke(cli, ["check"])
    assert done.exit_code == 9, done.output
    assert ("Next: `mirrorlake repair`" in done.output) == repairable


def test_a_contract_without_a_table_to_repair_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(
        "version: 1\nsources: {s: {host: h, user: u}}\n"
        "tenants: {g: {sources: [s], databases: ['x_%'], tables: {t: {key: [id]}}}}\n"
    )
    done = CliRunner().invoke(cli, ["repair", "--yes", "--config", str(path)])
    assert isinstance(done.exception, ConfigError)
    assert "g.t: it is of tenants: `mirrorlake check g.t`" in str(done.exception.next_step)
