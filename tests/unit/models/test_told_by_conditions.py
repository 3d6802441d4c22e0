"""Conditions from which readers learn what a contract hides are pointed at, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.models.compile.revealing_conditions import told_by_conditions
from tests.unit.models.test_project import (  # noqa: F401 - fixtures
    Compiled,
    compiled,
    contract,
)

# `email` of s_d.people is hidden; `born` and `id` are not, nor is any column of s_d.sales.
FROM = "SELECT s.id FROM s_d.people p JOIN s_d.sales s ON s.id = p.id WHERE "
ONE = "SELECT id FROM s_d.people p WHERE "
TOLD = {
    f"{ONE}email = 'ann@example.com'": "a constant",
    f"{ONE}'ann@example.com' <=> email": "a constant",
    f"{ONE}LOWER(TRIM(email)) IN ('ann@example.com', 'bob@example.com')": "a constant",
    f"{ONE}NOT (id = 1 OR email <> 'ann@example.com')": "a constant",
    f"{ONE}email LIKE 'ann@example.com'": "a constant",
    f"{ONE}email BETWEEN 'a' AND 'a'": "a constant",
    f"{ONE}email >= 'a' AND id > 0 AND 'a' >= email": "a constant",
    f"{ONE}COALESCE(email = 'a', FALSE)": "a constant",
    f"{ONE}CASE WHEN email = 'a' THEN TRUE ELSE FALSE END": "a constant",
    f"{FROM}p.email = s.store": "store of s_d.sales",
    f"{FROM}p.email < s.store": "store of s_d.sales",
    f"{FROM}s.store BETWEEN p.email AND 'z'": "store of s_d.sales",
    f"{FROM}HASH(p.email) = HASH(s.store)": "store of s_d.sales",
    f"{FROM}CONCAT(p.email, s.store) = 'a'": "store of s_d.sales",
    f"{FROM}CONTAINS(s.store, p.email)": "store of s_d.sales",
    f"{FROM}ARRAY_CONTAINS(ARRAY(s.store), p.email)": "store of s_d.sales",
    f"{FROM}p.email IN (SELECT store FROM s_d.sales)": "store of s_d.sales",
    f"{FROM}p.email = (SELECT MAX(store) FROM s_d.sales)": "store of s_d.sales",
    f"{FROM}EXISTS (SELECT 1 FROM s_d.sales t WHERE t.store = p.email)": "store of s_d.sales",
    "SELECT s.id FROM s_d.sales s JOIN s_d.people p ON p.email = s.store": "store of s_d.sales",
    "SELECT s.id FROM s_d.sales s LEFT SEMI JOIN s_d.people p ON p.email = s.store":
        "store of s_d.sales",
    "SELECT s.id FROM s_d.sales s JOIN (SELECT email AS store FROM s_d.people) p USING (store)":
        "store of s_d.sales",
    "WITH x AS (SELECT id, UPPER(email) AS m FROM s_d.people) "
    "SELECT s.id FROM x, s_d.sales s WHERE x.m = s.store": "store of s_d.sales",
    "SELECT s.id FROM s_d.people AS p (a, b, c) JOIN s_d.sales s ON p.b = s.store":
        "store of s_d.sales",
    "SELECT id FROM s_d.sales WHERE id IN (SELECT id FROM s_d.people WHERE email = 'a')":
        "a constant",
    "SELECT COUNT(*) AS n FROM (SELECT store FROM s_d.sales INTERSECT SELECT email FROM s_d.people)":
        "store of s_d.sales",
    "SELECT COUNT(*) AS n FROM (SELECT store FROM s_d.sales EXCEPT SELECT email FROM s_d.people)":
        "store of s_d.sales",
    "SELECT p.id FROM s_d.people p JOIN s_d__clean.people c ON p.email = c.email":
        "email of s_d__clean.people",
    "SELECT COUNT(*) AS n FROM s_d.people GROUP BY id HAVING MAX(email) = 'a'": "a constant",
}  # fmt: skip
SILENT = [
    "SELECT id FROM s_d.people WHERE id = 1 AND born > DATE '2000-01-01'",
    f"{ONE}email IS NOT NULL",
    f"{ONE}email <> ''",
    f"{ONE}email > 'a' AND email < 'b'",
    f"{ONE}LENGTH(email) > 3",
    "SELECT p.id FROM s_d.people p JOIN s_d.people q ON p.email = q.email",
    "SELECT p.id FROM s_d.people p JOIN s_d.people q USING (email)",
    f"{FROM}p.email IN (SELECT email FROM s_d.people)",
    f"{FROM}EXISTS (SELECT 1 FROM s_d.people q WHERE q.email = p.email AND q.id = s.id)",
    "SELECT id FROM s_d.sales WHERE id IN (SELECT id FROM s_d.people WHERE email IS NULL)",
    "SELECT c.id FROM s_d__clean.people c JOIN s_d.sales s ON c.email = s.store",
]


def warned(compiled: Compiled, **models: str) -> list[str]:  # noqa: F811
    project = compiled(**models)
    assert not project.problems, project.problems
    catalogue = compiled.catalogue  # type: ignore[attr-defined]
    return [
        words for one in project.models.values() for words in told_by_conditions(catalogue, one)
    ]


@pytest.mark.parametrize("query", TOLD)
def test_what_is_told(compiled: Compiled, query: str) -> None:  # noqa: F811
    (words,) = warned(compiled, a__b=query)
    assert "models/a/b.sql:1:" in words
    assert f"email of s_d.people, which is hidden, with {TOLD[query]}, which is not" in words


@pytest.mark.parametrize("query", SILENT)
def test_what_tells_nothing(compiled: Compiled, query: str) -> None:  # noqa: F811
    assert warned(compiled, a__b=query) == []


def test_a_name_under_for_is_a_value_that_readers_see(compiled: Compiled) -> None:  # noqa: F811
    header = "---\nfor: {mail: [a, b]}\n---\n"
    (words,) = warned(compiled, a__b=f"{header}SELECT id\nFROM s_d.people\nWHERE email = mail")
    assert "models/a/b.sql:6:7: a condition compares email of s_d.people" in words
    assert "with mail, which is not" in words


def test_inputs_of_a_python_model(contract: Path, compiled: Compiled) -> None:  # noqa: F811
    path = contract.parent / "models" / "a" / "p.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        '"""---\nreads:\n  rows: SELECT id FROM s_d.people WHERE email = \'a\'\n'
        'columns: {id: {type: int, made_of: rows.id}}\n---"""\n'
        "from pyspark.sql import DataFrame\n\n"
        "def p(rows: DataFrame) -> DataFrame:\n    return rows\n"
    )
    (words,) = warned(compiled)
    assert "models/a/p.py:3:" in words


def test_hidden_columns_of_a_table_made_elsewhere(contract: Path, compiled: Compiled) -> None:  # noqa: F811
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = contract.parent / "exports"
    folder.mkdir()
    pq.write_table(pa.table({"mail": ["a"], "n": [1]}), folder / "a.parquet")
    path = contract.parent / "models" / "ext" / "mails.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "format: parquet\npath: exports\ncolumns: {mail: string, n: bigint}\nhidden: mail\n"
    )
    (words,) = warned(compiled, a__b="SELECT n FROM ext.mails WHERE mail = 'a'")
    assert "mail of ext.mails, which is hidden, with a constant" in words


def test_plan_and_show_say_it(
    contract: Path, compiled: Compiled, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    monkeypatch.setenv("MIRRORLAKE_CONFIG", str(contract))
    compiled(a__b="SELECT id\nFROM s_d.people\nWHERE email = 'ann@example.com'")
    for _ in range(2):  # what is kept of it says it, too
        ran = CliRunner().invoke(cli, ["plan"])
        assert ran.exit_code == 0
        assert "b.sql:3:7: a condition compares email" in ran.stdout
    found = json.loads(CliRunner().invoke(cli, ["plan", "--json"]).stdout)
    assert "email of s_d.people" in found["models"][0]["warnings"][0]
    shown = json.loads(CliRunner().invoke(cli, ["show", "a.b", "--json"]).stdout)
    assert "email of s_d.people" in shown["warnings"][0]
    # A row's value is in the query, and in no warning.
    assert "ann@" not in found["models"][0]["warnings"][0]
