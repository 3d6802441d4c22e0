"""Tests of models as they are written, fitted to the models; every problem with its place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ModelError
from mirrorlake.models.contract_models import compile_offline, models_folder
from mirrorlake.models.testing.run_tests import FoundTests, find_tests
from tests.unit.models.test_project import contract  # noqa: F401

QUERY = (
    "SELECT store, COUNT(*) AS n, SUM(amount) AS amount FROM s_d.sales"
    " WHERE DATE(sold_at) = day GROUP BY store"
)
FOR = "for: {day: \"TIMESERIES('2024-03-01', '2024-03-04', 'P1D')\"}"
Found = Callable[..., FoundTests]


@pytest.fixture
def found(contract: Path, monkeypatch: pytest.MonkeyPatch) -> Found:  # noqa: F811
    """The tests of models that are written: ``dataset__name=text`` or ``dataset__name__test``."""
    monkeypatch.chdir(contract.parent)

    def run(only: str | None = None, **files: str) -> FoundTests:
        for name, text in files.items():
            dataset, stem, *test = name.split("__")
            path = (
                contract.parent / "models" / dataset / f"{stem}{'.test.yaml' if test else '.sql'}"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        config = load_config(Path("mirrorlake.yaml"))
        with compile_offline(config) as (project, catalogue, declarations):
            folder = models_folder(config)
            return find_tests(folder, project, catalogue, declarations, only)

    return run


def daily(tests: str, query: str = QUERY) -> str:
    return f"---\n{FOR}\n{tests}\n---\n{query}"


ONE = """tests:
  one_day:
    for: {day: 2024-03-02}
    inputs:
      S_D.Sales:
        - {id: 1, sold_at: 2024-03-02 10:00, STORE: Paris, amount: 1.5}
        - {id: 2}
        - {}
    expected:
      - {store: Paris, n: 1, Amount: 1.5}
      - {store: ~, n: 1, amount: ~}
"""


def test_a_test_has_every_cell_of_its_tables_with_the_columns_types(found: Found) -> None:
    for files in (
        {"m__daily": daily(ONE)},
        {"m__daily": daily("{}")[:0] + f"---\n{FOR}\n---\n{QUERY}", "m__daily__test": ONE},
    ):
        tests = found(**files)
        assert tests.problems == ()
        (one,) = tests.ready
        assert (one.test.name, dict(one.scope)) == ("one_day", {"day": date(2024, 3, 2)})
        (sales,) = one.fixtures
        assert sales.identifier == Identifier("s_d", "sales")
        assert sales.columns == (
            ("id", "int"),
            ("sold_at", "timestamp_ntz"),
            ("store", "string"),
            ("amount", "decimal(10,2)"),
        )
        at = int(datetime(2024, 3, 2, 10, tzinfo=UTC).timestamp()) * 10**6
        assert sales.rows == (
            (1, at, "Paris", Decimal("1.50")),
            (2, None, None, None),
            (None,) * 4,
        )
        assert one.compared == (("store", "string"), ("n", "bigint"), ("amount", "decimal(20,2)"))
        assert one.expected == (("Paris", 1, Decimal("1.50")), (None, 1, None))


def test_a_column_called_pii_may_be_null(found: Found) -> None:
    """In a contract `pii: null` is a rule; here it is no value."""
    tests = found(
        m__a="SELECT id AS pii FROM s_d.sales",
        m__a__test="tests: {t: {inputs: {s_d.sales: []}, expected: [{pii: null}, {pii: NULL}]}}",
    )
    assert tests.ready[0].expected == ((None,), (None,))


def test_a_scope_by_the_calendar_of_the_test(found: Found) -> None:
    text = ONE.replace("one_day:", "one_day:\n    now: 2024-06-01")
    scopes = "for: {day: \"TIMESERIES(DATE_SUB(CURRENT_DATE, 92), CURRENT_DATE, 'P1D')\"}"
    (one,) = found(m__daily=f"---\n{scopes}\n{text}---\n{QUERY}").ready
    assert one.scope["day"] == date(2024, 3, 2)


def test_a_model_that_is_read_has_the_columns_that_are_inferred_of_it(found: Found) -> None:
    tests = found(
        m__daily=daily(""),
        m__all="SELECT SUM(n) AS n FROM m.daily",
        m__all__test="tests:\n  sum:\n    inputs:\n      m.daily: [{store: a, n: 3, day: 2024-03-01}]\n"
        "    expected: [{n: 3}]\n",
    )
    assert tests.problems == ()
    (fixture,) = tests.ready[0].fixtures
    assert fixture.rows == (("a", 3, None, 19783),)
    # The partition's column is never NULL.
    text = "tests:\n  sum:\n    inputs:\n      m.daily: [{store: a, n: 3}]\n    expected: []\n"
    (problem,) = found(m__all__test=text).problems
    assert 'all.test.yaml:4:17: tests.sum.inputs."m.daily"[0]: day is never NULL' in problem.message


NEVER = """tests:
  loaded:
    {}inputs: {{s_d.never: [{{id: 1}}]}}
    expected: [{{id: 1}}]
"""


def test_a_table_that_was_never_loaded_has_the_columns_that_the_test_gives(found: Found) -> None:
    files = {"m__a": "SELECT id FROM s_d.never", "m__b": "SELECT id FROM m.a"}
    below = (
        "tests: {t: {columns: {m.a: {id: bigint}}, inputs: {m.a: [{id: 1}]}, expected: [{id: 1}]}}"
    )
    (problem,) = found(**files, m__a__test=NEVER.format("")).problems
    assert (
        'a.test.yaml:3:14: tests.loaded.inputs."s_d.never": the table was never loaded'
        in problem.message
    )
    assert (
        "`columns: {s_d.never: {id: int}}`, or load it: mirrorlake sync s.d.never"
        in problem.message
    )
    given = NEVER.format("columns: {s_d.never: {id: bigint, x: 'decimal(5,2)'}}\n    ")
    tests = found(m__a__test=given, m__b__test=below)
    assert tests.problems == ()
    assert [one.fixtures[0].columns for one in tests.ready] == [
        (("id", "bigint"), ("x", "decimal(5,2)")),
        (("id", "bigint"),),
    ]
    (alone,) = found(only="m.b").ready
    assert alone.test.model == "m.b"


def test_given_columns_must_be_those_of_a_table_that_is_there(found: Found) -> None:
    columns = "columns: {s_d.sales: {id: bigint, stroe: string, amount: 'decimal(10,2)'}}"
    text = ONE.replace("    for: {day", f"    {columns}\n    for: {{day")
    (problem,) = found(m__daily=daily(text)).problems
    assert [line.split(": ", 1)[1] for line in problem.message.splitlines()] == [
        'tests.one_day.columns."s_d.sales".id: id of s_d.sales is int, not bigint',
        'tests.one_day.columns."s_d.sales".stroe: s_d.sales has no column stroe; did you mean '
        "'store'?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problems"),
    [
        ("    for:", "    fro:", ["5:5: tests.one_day.fro: unknown key"]),
        ("    expected:", "    excepted:", ["4:3: tests.one_day.expected: is missing", "11:5: tests.one_day.excepted: unknown key; did you mean 'expected'?"]),
        ("{day: 2024-03-02}", "{dya: 2024-03-02}", ["5:11: tests.one_day.for.dya: m.daily has no name dya under `for`; did you mean 'day'?"]),
        ("{day: 2024-03-02}", "{day: 2024-04-02}", ["5:5: tests.one_day.for: m.daily has no partition day=2024-04-02: they go from day=2024-03-01 to day=2024-03-03"]),
        ("    for: {day: 2024-03-02}\n", "", ["4:3: tests.one_day.for: 3 partitions of m.daily are meant: give day, too"]),
        ("    for:", "    now: now\n    for:", ["5:10: tests.one_day.now: 'now' is no moment"]),
        ("S_D.Sales:", "s_d.slaes:", ['7:7: tests.one_day.inputs."s_d.slaes": the query does not read s_d.slaes; did you mean', "6:5: tests.one_day.inputs: the query reads s_d.sales: give its rows, or `s_d.sales: []`"]),
        ("STORE:", "stroe:", ["8:46: tests.one_day.inputs.\"S_D.Sales\"[0].stroe: there is no column stroe; did you mean 'store'?"]),
        ("- {id: 2}", "- {id: 2, ID: 3}", ['9:19: tests.one_day.inputs."S_D.Sales"[1].ID: ID is there as id, too']),
        ("- {id: 2}", "- {id: two}", ["9:16: tests.one_day.inputs.\"S_D.Sales\"[1].id: 'two' is no whole number, as int is"]),
        ("amount: 1.5}\n        -", "amount: 1.505}\n        -", ['8:68: tests.one_day.inputs."S_D.Sales"[0].amount: 1.505 does not fit into decimal(10,2): it would be 1.50']),
        ("- {id: 2}", "- id", ['9:11: tests.one_day.inputs."S_D.Sales"[1]: a mapping is expected']),
        ("Amount: 1.5}", "Amount: 1.501}", ["12:38: tests.one_day.expected[0].Amount: 1.501 does not fit into decimal(20,2)"]),
        ("Amount: 1.5}", "Amount: 1.5, day: 2024-03-02}", ["12:43: tests.one_day.expected[0].day: day is the partition: leave it out"]),
        (", n: 1, Amount: 1.5}", "}", ["12:9: tests.one_day.expected[0]: leaves out n, amount: write NULL as ~, or say what is compared: `compare: [store]`"]),
        ("    expected:", "    compare: [store, nn]\n    expected:", ["11:22: tests.one_day.compare[1]: there is no column nn"]),
        ("    expected:", "    compare: [store, n]\n    expected:", ["13:30: tests.one_day.expected[0].Amount: Amount is not compared: name it under `compare`, or leave it out", "14:26: tests.one_day.expected[1].amount: amount is not compared"]),
        ("    expected:", "    compare: []\n    expected:", ["11:14: tests.one_day.compare: is empty: nothing would be compared"]),
        ("    inputs:", "    columns: {s_d.people: {id: int}}\n    inputs:", ['6:15: tests.one_day.columns."s_d.people": the query does not read s_d.people']),
        ("one_day:", "One Day:", ['4:3: tests."One Day": a name has small letters']),
        ("      - {store: ~", "  one_day: {}\n      - {store: ~", ["not valid YAML"]),
        ("tests:\n", "tests:\n  one_day: {expected: []}\n", ["5:3: tests.one_day: this key is already on line 4"]),
    ],
)  # fmt: skip
def test_every_problem_is_told_with_its_place(
    found: Found, old: str, new: str, problems: list[str]
) -> None:
    assert old in ONE
    try:
        tests = found(m__daily=daily(ONE.replace(old, new, 1)))
        lines = [line for one in tests.problems for line in one.message.splitlines()]
        assert tests.ready == () or "name has" in lines[0]
    except ModelError as error:  # the header can't be read
        lines = error.message.splitlines()
    assert len(lines) == len(problems), lines
    for problem in problems:
        assert any(problem in line for line in lines), lines
    assert all(
        line.startswith("models/m/daily.sql:") or "/models/m/daily.sql:" in line for line in lines
    )


def test_names_and_files_of_tests(found: Found) -> None:
    tests = found(m__daily=daily(ONE), m__daily__test=ONE, m__dialy__test=ONE)
    twice, nobody = sorted((one.message for one in tests.problems), key=len, reverse=True)
    words = [one.message for one in tests.problems]
    assert any("there is no model m.dialy; did you mean 'm.daily'?" in one for one in words)
    assert any(
        "daily.test.yaml:2:3: tests.one_day: a test of this name is in" in one for one in words
    )
    assert len(words) == 2
    assert twice != nobody


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("m/daily.test.yml", ONE, "is not where tests are"),
        ("m/x/daily.test.yaml", ONE, "is not where tests are"),
        ("m/daily.test.yaml", "- a", "1:1: a mapping is expected, with `tests`"),
        ("m/daily.test.yaml", "tset: {}", "1:1: tset: unknown key; known are tests"),
        ("m/daily.test.yaml", "tests: {a: [", "not valid YAML"),
    ],
)
def test_files_that_are_no_tests(
    found: Found,
    contract: Path,  # noqa: F811
    name: str,
    text: str,
    words: str,
) -> None:
    path = contract.parent / "models" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    problems = found(m__daily=daily("")).problems
    assert len([one for one in problems if words in one.message]) == 1, problems


def test_plan_fails_on_a_test_that_does_not_fit_and_run_does_not_read_it(
    found: Found,
    contract: Path,  # noqa: F811
) -> None:
    found(m__daily=daily(""), m__daily__test=ONE.replace("STORE", "stroe"))
    result = CliRunner().invoke(cli, ["plan", "--config", str(contract)])
    assert isinstance(result.exception, ModelError)
    assert "daily.test.yaml:6:46: tests.one_day.inputs" in str(result.exception)
    result = CliRunner().invoke(cli, ["show", "m.daily", "--config", str(contract)])
    assert result.exit_code == 0


def test_without_tests_nothing_is_said_to_have_passed(found: Found, contract: Path) -> None:  # noqa: F811
    found(m__daily=daily(""))
    for arguments, words in (
        ((), "The models have no tests: nothing was tested."),
        (("m.daily",), "m.daily has no tests: nothing was tested."),
    ):
        result = CliRunner().invoke(cli, ["test", *arguments, "--config", str(contract)])
        assert (result.exit_code, result.output.strip()) == (0, words)
    result = CliRunner().invoke(cli, ["test", "m.dialy", "--config", str(contract)])
    assert "there is no model m.dialy; did you mean 'm.daily'?" in str(result.exception)


def test_no_lake_is_made_to_find_tests(tmp_path: Path, found: Found, contract: Path) -> None:  # noqa: F811
    text = contract.read_text()
    other = tmp_path / "other"
    (other / "models" / "m").mkdir(parents=True)
    (other / "mirrorlake.yaml").write_text(text)
    (other / "models" / "m" / "a.sql").write_text("SELECT 1 AS a")
    result = CliRunner().invoke(cli, ["test", "--config", str(other / "mirrorlake.yaml")])
    assert result.exit_code == 0
    assert sorted(path.name for path in other.iterdir()) == ["mirrorlake.yaml", "models"]
