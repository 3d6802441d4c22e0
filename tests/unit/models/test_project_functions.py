"""Functions that a project declares for its queries: their file, their types, and what changes with
them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from mirrorlake.models.compile.model import Project
from mirrorlake.models.compile.project import stored_columns
from mirrorlake.models.files.declaration import read_declarations
from mirrorlake.models.files.functions import read_functions
from mirrorlake.models.spark.session_functions import checked, is_of
from mirrorlake.models.spark_sql.functions import DeclaredFunction
from tests.unit.models.test_project import DAYS, Compiled, compiled, contract, problem  # noqa: F401

FUNCTIONS = '''"""---
functions:
  plain: {takes: [string], gives: string}
  per_day: {takes: ["decimal(10,2)", int], gives: "decimal(20,6)"}
---"""

def plain(text: str | None) -> str | None:
    return text and text.strip()

def per_day(amount, days):
    return amount / days
'''
CALLS = f"""---
{DAYS}
---
SELECT Plain(store) AS store, per_day(amount, id) AS rate FROM s_d.sales WHERE DATE(sold_at) = day
"""
Written = Callable[[str], Path]


@pytest.fixture
def functions(contract: Path) -> Written:  # noqa: F811
    def write(text: str) -> Path:
        path = contract.parent / "models" / "functions.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def fingerprint(project: Project, name: str = "m.calls") -> str:
    assert project.problems == ()
    return project.models[name].fingerprint


def test_a_call_has_the_declared_type_and_is_made_of_its_arguments(
    compiled: Compiled,  # noqa: F811
    functions: Written,
) -> None:
    functions(FUNCTIONS)
    model = compiled(m__calls=CALLS).models["m.calls"]
    assert [(f.name, f.value.type, f.value.nullable) for f in model.fields][:2] == [
        ("store", "string", True),
        ("rate", "decimal(20,6)", True),
    ]
    origins = stored_columns(compiled(), model, "rate")
    assert [(one.table, one.column) for one in origins] == [
        ("s_d.sales", "amount"),
        ("s_d.sales", "id"),
    ]


def test_a_change_of_the_code_makes_those_stale_that_call_it(
    compiled: Compiled,  # noqa: F811
    functions: Written,
) -> None:
    functions(FUNCTIONS)
    other = "SELECT store FROM s_d.sales"
    before = compiled(m__calls=CALLS, m__other=other)
    functions(FUNCTIONS.replace("def plain", "# why\n\ndef plain"))
    assert fingerprint(compiled()) == fingerprint(before)
    functions(FUNCTIONS.replace("strip()", "strip().lower()"))
    after = compiled()
    assert fingerprint(after) != fingerprint(before)
    assert fingerprint(after, "m.other") == fingerprint(before, "m.other")
    # Other types are found, too, where what was found before is kept.
    functions(FUNCTIONS.replace("decimal(20,6)", "decimal(22,6)"))
    assert compiled().models["m.calls"].fields[1].value.type == "decimal(22,6)"


WRONG_CALLS = [
    ("plain(id)", "plain does not take (int). It is plain(string): CAST the argument"),
    ("plain(store, store)", "plain does not take (string, string)"),
    ("plian(store)", "there is no function plian. See Spark's for its right name, or declare one"),
]


@pytest.mark.parametrize(("call", "words"), WRONG_CALLS)
def test_a_wrong_call(
    compiled: Compiled,  # noqa: F811
    functions: Written,
    call: str,
    words: str,
) -> None:
    functions(FUNCTIONS)
    found = problem(compiled(m__calls=f"SELECT 1 AS a,\n  {call} AS b FROM s_d.sales"))
    assert found.startswith(f"models/m/calls.sql:2:3: {words}")


def test_a_view_calls_none(compiled: Compiled, functions: Written) -> None:  # noqa: F811
    functions(FUNCTIONS)
    text = "---\nmaterialized: view\n---\nSELECT plain(store) AS s FROM s_d.sales"
    found = problem(compiled(m__calls=text))
    assert re.match(r"models/m/calls\.sql:4:8: plain is a function of .*: a view is read", found)


WRONG_FILES = [
    ("[string]", "[sting]", "3:19: functions.plain.takes[0]: 'sting' is not boolean, int"),
    ("gives: string", "gives: timestamp", "3:35: functions.plain.gives: 'timestamp' is not"),
    ("gives: string", "give: string", "3:28: functions.plain.give: unknown key"),
    ("  plain:", "  lower:", "3:3: functions.lower: Spark has a function of this name"),
    ("def plain(text", "def plein(text", "3:3: functions.plain: the file has no function plain"),
    ("def plain(text", "def plain(a, text", "3:3: functions.plain: the function plain does not take 1"),
    ("def plain(text", "async def plain(text", "3:3: functions.plain: the function plain does not"),
    ("def per_day", "import m\ndef per_day", "10:1: m is a file beside this one"),
    ("return text and", "return text an", "8:17: not valid Python"),
    ("functions:", "function:", "2:1: function: unknown key"),
    ('"""---\n', '"""\n', "1:1: a Python model begins with its header"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), WRONG_FILES)
def test_what_the_file_can_not_say(
    compiled: Compiled,  # noqa: F811
    functions: Written,
    old: str,
    new: str,
    words: str,
) -> None:
    assert old in FUNCTIONS
    path = functions(FUNCTIONS.replace(old, new, 1))
    (path.parent / "m").mkdir()
    (path.parent / "m" / "x.py").write_text("")
    found, unread = read_functions(path.parent)
    assert found.by_name == {}
    (one,) = unread.problems
    said = str(one).replace(f"{path}:", "").splitlines()
    assert any(line.startswith(words) for line in said), said
    # It hides no model that calls nothing of it.
    (path.parent / "m" / "x.py").unlink()
    functions(FUNCTIONS.replace("functions:", "function:"))
    project = compiled(m__calls=CALLS, m__other="SELECT store FROM s_d.sales")
    assert list(project.models) == ["m.other"]
    assert next(map(str, project.problems)).startswith(f"{path}:")


def test_without_the_file_there_are_none(tmp_path: Path) -> None:
    assert read_functions(tmp_path)[0].by_name == {}
    found, unread = read_declarations(tmp_path)
    assert (found, unread.problems) == ([], ())


OF = [
    (Decimal("1.20"), "decimal(3,1)", True),
    (Decimal("1.25"), "decimal(3,1)", False),
    (Decimal("123"), "decimal(3,1)", False),
    (Decimal("NaN"), "decimal(3,1)", False),
    (Decimal("1E+2"), "decimal(3,0)", True),
    (2**63 - 1, "bigint", True),
    (2**63, "bigint", False),
    (1.0, "int", False),
    ("a", "binary", False),
    (datetime(2024, 1, 1), "date", False),
    (date(2024, 1, 1), "date", True),
]


@pytest.mark.parametrize(("value", "kind", "fits"), OF)
def test_a_value_is_of_its_type_or_not(value: object, kind: str, fits: bool) -> None:
    assert is_of(value, kind) is fits


def test_a_result_of_another_type_is_an_error() -> None:
    plain = checked(lambda text: text, DeclaredFunction("plain", ("string",), "string"))
    assert (plain("a"), plain(None)) == ("a", None)
    with pytest.raises(
        TypeError, match="<<plain gave a int that is no string, as which it is declared>>"
    ):
        plain(7)
