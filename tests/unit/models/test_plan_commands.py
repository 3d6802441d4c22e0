"""`plan`, `invalidate` and `backfill` as a person types them; no server is needed for these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from mirrorlake.cli.main import cli
from mirrorlake.cli.plans import markdown_cell
from mirrorlake.config import load_config
from mirrorlake.ledger import Ledger
from mirrorlake.models.changes.since_run import record_model
from mirrorlake.operations.schema_changes.recorded_contracts import record_contract
from tests.unit.models.test_project import CONTRACT, DAYS, Compiled
from tests.unit.models.test_work import INITIAL, World

DAILY = (
    f"---\n{DAYS}\n---\nSELECT store, SUM(amount) AS amount FROM s_d__clean.sales\n"
    "WHERE DATE(sold_at) = day GROUP BY store"
)
TOTAL = "SELECT SUM(amount) AS total FROM m.daily"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorlake.cli.show.console.width", 200)


def run(*arguments: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(cli, arguments)
    error = "" if isinstance(ran.exception, SystemExit | None) else str(ran.exception)
    return getattr(ran.exception, "exit_code", ran.exit_code), ran.stdout, ran.stderr + error


def read_json(*arguments: str) -> Any:
    code, out, errors = run(*arguments, "--json")
    assert code in (0, 10, 20), errors
    return json.loads(out)


@pytest.fixture
def deployed(contract: Path, compiled: Compiled) -> Path:
    """A contract and models that were run as they are."""
    project = compiled(m__daily=DAILY, m__total=TOTAL)
    config = load_config(contract)
    ledger = Ledger(config.ledger.url)
    for one in config.tables:
        record_contract(ledger, one)
    for model in project.models.values():
        record_model(ledger, model)
    return contract


def test_a_plan_of_nothing_new_ends_with_0(deployed: Path) -> None:
    code, out, _ = run("plan")
    assert code == 0, out
    assert "Schema versions: not looked at; --sources looks at the servers." in out
    found = read_json("plan")
    assert {one["model"]: one["change"] for one in found["models"]} == {
        "m.daily": "unchanged",
        "m.total": "unchanged",
    }
    assert {one["table"]: one["change"] for one in found["contracts"]} == {
        "s.d.sales": "unchanged",
        "s.d.people": "unchanged",
        "s.d.never": "unchanged",
    }
    assert found["schema_versions"] is None


def test_a_contract_that_changes_is_10_and_one_that_breaks_readers_20(deployed: Path) -> None:
    deployed.write_text(CONTRACT.replace("start: 2024-01-01", "start: 2024-01-01, overlap: 1h"))
    code, out, _ = run("plan")
    assert code == 10
    assert "s.d.sales: overlap was PT30M, is PT1H" in out
    rule = "start: 2024-01-01, columns: {amount: {pii: drop}}"
    deployed.write_text(CONTRACT.replace("start: 2024-01-01", rule))
    code, out, _ = run("plan")
    assert code == 20
    assert "s_d__clean.sales.amount is gone then" in out
    assert "models/m/daily.sql:4:19: m.daily reads amount of s_d__clean.sales" in out
    assert "m.total reads amount of m.daily, which is made of amount of s_d__clean.sales" in out


def test_markdown_is_a_table_and_nothing_of_a_text_is_taken_for_markup(deployed: Path) -> None:
    code, out, _ = run("plan", "--markdown")
    assert code == 0
    html = MarkdownIt("commonmark").enable("table").render(out)
    assert "<td>m.daily</td>" in html
    assert html.count("<table>") == 2
    for text in ("a|b", "`c` *d* _e_", "<b>[x](y)</b>", "back\\slash"):
        page = f"| h |\n|---|\n| {markdown_cell(text)} |\n"
        html = MarkdownIt("commonmark").enable("table").render(page)
        escaped = text.replace("<", "&lt;").replace(">", "&gt;")
        assert f"<td>{escaped}</td>" in html, html


def test_a_model_that_does_not_compile_is_an_error_in_every_form(deployed: Path) -> None:
    deployed.with_name("models").joinpath("m", "bad.sql").write_text("SELECT nothing FROM m.daily")
    for form in ((), ("--json",), ("--markdown",)):
        code, out, errors = run("plan", *form)
        assert code == 2
        assert "bad.sql:1:8: there is no column nothing" in errors
        assert "m.daily" in out.replace("\\", "")
    assert "Error: " in run("plan", "--markdown")[1]


# --- invalidate -----------------------------------------------------------------------------------


@pytest.fixture
def world(deployed: Path, compiled: Compiled) -> World:
    world = World(deployed, compiled)
    world.models = {"m__daily": DAILY, "m__total": TOTAL}
    world.load("s.d.sales", INITIAL)
    return world


def test_what_is_declared_invalid_is_listed_and_can_be_taken_back(world: World) -> None:
    world.computed("m.daily", "day=2024-03-01")
    days = ("--from", "2024-03-01", "--to", "2024-03-01", "--reason", "a wrong rate")
    assert run("invalidate", "sales", *days, "--dry-run")[1].endswith("Nothing was written.\n")
    assert world.ledger.dirty_marks() == []
    declared = read_json("invalidate", "sales", *days)
    assert declared["partitions"] == {"m.daily": ["day=2024-03-01"], "m.total": [""]}
    listed = read_json("invalidate")
    assert [(one["target"], one["partitions"], one["reason"]) for one in listed] == [
        ("s.d.sales", [], "a wrong rate"),
        ("m.daily", ["day=2024-03-01"], "a wrong rate"),
        ("m.total", [""], "a wrong rate"),
    ]
    assert "a wrong rate" in run("invalidate")[1]
    code, _, errors = run("invalidate", "--withdraw", "nothing")
    assert (code, "nothing is declared invalid as 'nothing'" in errors) == (2, True)
    code, out, _ = run("invalidate", "--withdraw", declared["declaration"])
    assert (code, "Nothing is declared invalid." in out) == (0, True)
    assert world.ledger.dirty_marks() == []


def test_partitions_of_a_model_are_declared_by_name(world: World) -> None:
    arguments = ("invalidate", "m.daily", "day=2024-03-02", "--downstream", "none")
    declared = read_json(*arguments)
    assert declared["partitions"] == {"m.daily": ["day=2024-03-02"]}
    assert (declared["first"], declared["reads_again"]) == (None, False)
    code, out, _ = run("invalidate", "m.daily", "--from", "2024-03-02", "--to", "2024-03-03")
    assert (code, "day=2024-03-02, day=2024-03-03" in out) == (0, True)


def test_a_table_needs_no_model_that_can_be_read(world: World, deployed: Path) -> None:
    deployed.with_name("models").joinpath("m", "bad.sql").write_text("---\nno: end")
    assert run("invalidate", "sales", "--downstream", "none")[0] == 0
    code, _, errors = run("invalidate", "sales")
    assert (code, "the header has no end" in errors) == (2, True)
    assert run("plan", "backfill", "sales")[0] == 0


# --- plans of backfills ---------------------------------------------------------------------------


def test_a_plan_says_what_is_not_known(world: World) -> None:
    run("invalidate", "sales", "--from", "2024-03-01", "--to", "2024-03-02")
    code, out, _ = run("plan", "backfill", "--invalid")
    assert code == 0
    row = next(line.split() for line in out.splitlines() if "load" in line)
    assert row[:7] == ["1.", "load", "s.d.sales", "2", "unknown", "unknown", "unknown"]
    assert "no figure is known; rows of 2 steps are not known; bytes of 2 steps" in out
    assert run("plan", "backfill", "--invalid", "--markdown")[1].startswith("|  | step | what |")


def test_without_targets_a_plan_is_of_everything_and_a_backfill_is_refused(world: World) -> None:
    found = read_json("plan", "backfill")
    tables = ["s.d.never", "s.d.people", "s.d.sales"]
    assert [(one["step"], one["target"]) for one in found["steps"]] == [
        *(("load", name) for name in tables),
        *(("fold", name) for name in tables),
        ("compute", "m.daily"),
        ("compute", "m.total"),
    ]
    code, _, errors = run("backfill")
    assert (code, "Name tables or models, or say --invalid." in errors) == (2, True)
    code, output, _ = run("backfill", "--invalid")
    assert (code, "Nothing is declared invalid" in output) == (0, True)
    code, _, errors = run("plan", "backfill", "nobody")
    assert (code, "no table 'nobody'" in errors) == (2, True)


def test_of_some_days_a_plan_is_of_the_models_that_have_them(world: World) -> None:
    days = ("--from", "2024-03-01", "--to", "2024-03-02")
    found = read_json("plan", "backfill", *days)
    models = [
        (one["target"], one["partitions"]) for one in found["steps"] if one["step"] == "compute"
    ]
    assert models == [("m.daily", 2)]


def test_an_option_before_a_subcommand_is_refused(world: World) -> None:
    code, _, errors = run("plan", "--config", "other.yaml", "backfill")
    assert (code, "Write --config behind: `mirrorlake plan backfill --config" in errors) == (
        2,
        True,
    )


def test_a_plan_touches_nothing(world: World) -> None:
    run("invalidate", "sales", "--from", "2024-03-01", "--to", "2024-03-02")
    folder = Path.cwd()
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix == ".db"}
    for arguments in (("plan",), ("plan", "backfill"), ("plan", "backfill", "--invalid")):
        assert run(*arguments)[0] in (0, 10)
    after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix == ".db"}
    assert {p.name for p in before if before[p] != after[p]} == set()
