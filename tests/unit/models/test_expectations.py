"""What a header expects of a model's rows: read, bound to its columns, and every problem in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorlake.models.checks.before_publishing import show_expectations
from mirrorlake.models.files.expectations import Expectation
from mirrorlake.models.ledger import CheckedExpectation, ModelPartition, PartitionChecks
from tests.unit.models.test_project import Compiled, compiled, contract, problem  # noqa: F401

DAYS = "for: {day: \"TIMESERIES('2024-03-01', CURRENT_DATE, 'P1D')\"}"
QUERY = "SELECT store, id, SUM(amount) AS amount FROM s_d.sales WHERE DATE(sold_at) = day GROUP BY store, id"


def model(header: str, query: str = QUERY) -> str:
    return f"---\n{DAYS}\n{header}\n---\n{query}"


def test_each_thing_that_is_expected_has_a_name_and_a_condition(compiled: Compiled) -> None:  # noqa: F811
    project = compiled(
        m__daily=model(
            "expect:\n"
            "  not_null: [Store, id]\n"
            "  unique: [[id], [store, id]]\n"
            "  accepted_values: {store: [Paris, ~], amount: [1, 2.5]}\n"
            "  rows: {min: 1, max: 9}\n"
            "  where: {positive: amount > 0 -- money}\n"
            "warn:\n"
            "  where: amount < 100"
        )
    )
    assert project.problems == ()
    found = {
        one.name: (one.severity, one.words, one.failing)
        for one in project.models["m.daily"].expectations
    }
    assert found == {
        "not_null_Store": ("error", "store is not NULL", "`store` IS NULL"),
        "not_null_id": ("error", "id is not NULL", "`id` IS NULL"),
        "unique_id": ("error", "no two rows have the same id", ""),
        "unique_store_id": ("error", "no two rows have the same store, id", ""),
        "accepted_values_store": (
            "error",
            "store is one of Paris, NULL",
            "NOT (`store` <=> 'Paris' OR `store` <=> CAST(NULL AS string))",
        ),
        "accepted_values_amount": (
            "error",
            "amount is one of 1, 2.5",
            "NOT (`amount` <=> CAST('1.00' AS decimal(20,2)) "
            "OR `amount` <=> CAST('2.50' AS decimal(20,2)))",
        ),
        "rows_min": ("error", "at least 1 row", ""),
        "rows_max": ("error", "at most 9 rows", ""),
        "positive": (
            "error",
            "amount > 0 -- money",
            "(\namount > 0 -- money\n) IS NOT TRUE",
        ),
        "where": ("warn", "amount < 100", "(\namount < 100\n) IS NOT TRUE"),
    }


def test_expectations_change_no_partition_and_have_terms_of_their_own(compiled: Compiled) -> None:  # noqa: F811
    before = compiled(m__daily=model("expect: {where: amount > 0}")).models["m.daily"]
    after = compiled(m__daily=model("expect: {where: amount >= 0}")).models["m.daily"]
    assert before.fingerprint == after.fingerprint
    assert before.expectations[0].terms != after.expectations[0].terms
    warned = compiled(m__daily=model("warn: {where: amount > 0}")).models["m.daily"]
    assert warned.expectations[0].terms == before.expectations[0].terms


def test_columns_whose_names_are_alike_in_letters_have_checks_of_their_own(
    compiled: Compiled,  # noqa: F811
) -> None:
    query = "SELECT id AS `a b`, id AS a_b FROM s_d.sales WHERE DATE(sold_at) = day"
    project = compiled(m__daily=model("expect: {not_null: [a b, a_b]}", query))
    names = [one.name for one in project.models["m.daily"].expectations]
    assert names == ["not_null_a_b", "not_null_a_b_2"]


@pytest.mark.parametrize(
    ("header", "problems"),
    [
        ("expct: {rows: {min: 1}}", ["3:1: expct: unknown key; did you mean 'expect'?"]),
        ("expect: {not_nul: [id]}", ["3:10: expect.not_nul: unknown key; did you mean 'not_null'?"]),
        ("expect: {rows: {mni: 1}}", ["3:17: expect.rows.mni: unknown key; did you mean 'min'?"]),
        ("expect: {rows: {min: few}}", ["3:22: expect.rows.min: a whole number is expected"]),
        ("expect: {rows: {min: -1}}", ["3:22: expect.rows.min: "]),
        ("expect: {rows: {min: 3, max: 2}}", ["3:16: expect.rows: min 3 is more than max 2"]),
        ("expect: [id]", ["3:9: expect: a mapping is expected"]),
        ("expect: {not_null: [id, stroe]}", ["3:25: expect.not_null[1]: there is no column stroe; did you mean 'store'?"]),
        ("expect: {not_null: x, unique: [id, y]}", ["3:20: expect.not_null: there is no column x", "3:36: expect.unique[1]: there is no column y"]),
        ("expect: {unique: [[id], [id, ID]]}", ["3:30: expect.unique[1][1]: ID is there twice"]),
        ("expect: {unique: [[id], []]}", ["3:25: expect.unique[1]: is empty"]),
        ("expect: {accepted_values: {stroe: [x]}}", ["3:28: expect.accepted_values.stroe: there is no column stroe; did you mean 'store'?"]),
        ("expect: {accepted_values: {id: [1, x]}}", ["3:36: expect.accepted_values.id[1]: 'x' is no whole number"]),
        ("expect: {accepted_values: {amount: [1.005]}}", ["3:37: expect.accepted_values.amount[0]: 1.005 does not fit into decimal(20,2)"]),
        ("expect: {accepted_values: {amount: [1, 1.0]}}", ["3:40: expect.accepted_values.amount[1]: 1.0 is there twice"]),
        ("expect: {accepted_values: {id: []}}", ["3:32: expect.accepted_values.id: is empty"]),
        ("expect: {where: amuont > 0}", ["3:17: expect.where: there is no column amuont; did you mean 'amount'?"]),
        ("expect: {where: {a: id > 0 AND amuont > 0}}", ["3:32: expect.where.a: there is no column amuont"]),
        ("expect: {where: \"id > 0 AND amuont > 0\"}", ["3:29: expect.where: there is no column amuont"]),
        ("expect:\n  where: |\n    id > 0\n    AND amuont > 0", ["6:9: expect.where: there is no column amuont"]),
        ("expect:\n  where: >\n    id > 0\n    AND amuont > 0", ["4:10: expect.where: there is no column amuont"]),
        ("expect: {where: amount + 1}", ["WHERE takes a condition, not decimal(21,2)"]),
        ("expect: {where: amount > store IS}", ["3:33: expect.where: the query can't be read"]),
        ("expect: {where: amount > 0 ORDER BY id}", ["a condition on a row is expected, and nothing else"]),
        ("expect: {where: amount > 0 UNION SELECT 1}", ["a condition on a row is expected, and nothing else"]),
        ("expect: {where: SUM(amount) > 0}", ["3:17: expect.where: sum: a condition is of one row"]),
        ("expect: {where: amount > (SELECT 1)}", ["a condition on a row has no subquery"]),
        ("expect: {where: ROW_NUMBER() OVER (ORDER BY id) > 0}", ["a condition is of one row"]),
        ("expect: {where: day = 1}", ["date and int have no type in common"]),
        ("expect: {where: {Bad Name: id > 0}}", ["3:18: expect.where.\"Bad Name\": a name has small letters"]),
        ("expect: {rows: {min: 1}}\nwarn: {rows: {min: 2}}", ["4:20: warn.rows.min: rows_min is under `expect`, too"]),
        ("expect: {not_null: id}\nwarn: {not_null: id}", ["4:18: warn.not_null: not_null_id is under `expect`, too"]),
        ("expect: {pandera: schemas.py}", ["3:19: expect.pandera: 'schemas.py' names no schema: write file.py:Name"]),
        ("expect: {pandera: none.py:A}", ["3:19: expect.pandera: there is no file "]),
    ],
)  # fmt: skip
def test_every_problem_is_told_with_its_place(
    compiled: Compiled,  # noqa: F811
    contract: Path,  # noqa: F811
    header: str,
    problems: list[str],
) -> None:
    from mirrorlake.errors import ModelError

    try:
        words = problem(compiled(m__daily=model(header)))
    except ModelError as error:  # the header can't be read
        words = str(error)
        words = words[words.index("models/m/") :]
    lines = words.splitlines()
    assert len(lines) == len(problems), words
    for line, wanted in zip(lines, problems, strict=True):
        assert "models/m/daily.sql:" in line
        assert wanted in line, line


def test_a_view_expects_nothing(compiled: Compiled) -> None:  # noqa: F811
    project = compiled(
        m__teas="---\nmaterialized: view\nexpect: {rows: {min: 1}}\n---\nSELECT id FROM s_d.sales"
    )
    assert problem(project).startswith(
        "models/m/teas.sql:3:1: expect: a view has no rows of its own"
    )


def looked_at(key: str, snapshot: int, *results: tuple[Expectation, bool]) -> PartitionChecks:
    found = (
        CheckedExpectation(one.name, one.terms, one.words, one.severity, passed, None, "")
        for one, passed in results
    )
    return PartitionChecks("m.daily", key, "t", snapshot, 9, tuple(found), "run")


def test_rows_that_were_refused_count_as_looked_at_and_not_so(
    compiled: Compiled,  # noqa: F811
) -> None:
    project = compiled(m__daily=model("expect: {where: {positive: amount > 0}, rows: {min: 1}}"))
    daily = project.models["m.daily"]
    rows, positive = daily.expectations
    first, second, third = daily.by_key
    published = {
        key: ModelPartition("m.daily", key, daily.fingerprint, "t", 1, {}, 9, 1.0, "run")
        for key in (first, second)
    }
    # Of the first and of the third, which was never published, newer rows were refused.
    checks = [looked_at(key, 2, (rows, True), (positive, False)) for key in (first, third)]
    of_rows, of_amounts = show_expectations(daily, checks, published)
    assert of_amounts.refused == (first, third)
    assert (of_amounts.looked_at, of_amounts.not_looked_at, of_amounts.warned) == (2, 1, 2)
    assert (of_rows.looked_at, of_rows.not_looked_at, of_rows.warned) == (2, 1, 0)
    # In main they were looked at before, and were as expected: the newest rows count.
    older = looked_at(first, 1, (rows, True), (positive, True))
    _, of_amounts = show_expectations(daily, [older, *checks], published)
    assert (of_amounts.looked_at, of_amounts.not_looked_at, of_amounts.warned) == (2, 1, 2)
