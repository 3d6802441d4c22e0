"""Models in Python: what their files say, told without running them, and every way to say it wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ModelError
from mirrorlake.ledger import Ledger
from mirrorlake.models.compile.dependencies import MirrorInput, ModelInput, inputs_of, unbounded
from mirrorlake.models.compile.model import Project
from mirrorlake.models.compile.project import stored_columns
from mirrorlake.models.files.declaration import Declaration, read_declaration, read_declarations
from mirrorlake.models.files.python_clock_and_chance import unsteady_calls
from mirrorlake.models.files.python_source import parse_python
from mirrorlake.models.partition_states.states import States
from mirrorlake.models.show.model import show_model
from tests.unit.models.test_project import (  # noqa: F401 - fixtures
    DAYS,
    Compiled,
    compiled,
    contract,
    problem,
)

SPEED = '''"""---
description: How fast
owner: data@example.com
for:
  day: TIMESERIES('2024-03-01', CURRENT_DATE, 'P1D')
  shop: [Paris, Detroit]
reads:
  sales: SELECT store, amount FROM s_d.sales
    WHERE DATE(sold_at) = day AND store = shop
  people: "SELECT id, born FROM s_d__clean.people -- all"
columns:
  store: {type: string, nullable: false, made_of: sales.store}
  score: {type: double, made_of: [sales.amount, people.born]}
expect: {pandera: Rows}
---
And more words.
"""

from datetime import date

import pandas  # installed: it may be imported
import pandera.pyspark as pa
from pyspark import sql

raise RuntimeError("compiling runs nothing")


class Rows(pa.DataFrameModel):
    """Words."""


def helper(n: int) -> int:
    return n + 1


def speed(sales: sql.DataFrame, people: "sql.DataFrame", *, day: date) -> sql.DataFrame:
    """Words."""
    return sales  # said
'''


def written(folder: Path, text: str, name: str = "shop/speed.py") -> Path:
    path = folder / "models" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def declared(folder: Path, text: str = SPEED) -> Declaration:
    return read_declaration(written(folder, text))


def test_all_that_a_file_says(tmp_path: Path) -> None:
    found = declared(tmp_path)
    assert (found.name, found.owner, found.partition_by) == (
        "shop.speed",
        "data@example.com",
        ("day", "shop"),
    )
    code = found.python
    assert code is not None
    assert code.function.line == SPEED[: SPEED.index("def speed")].count("\n") + 1
    assert [(one.name, one.type, one.nullable) for one in code.columns] == [
        ("store", "string", False),
        ("score", "double", True),
    ]
    assert [one.name for one in code.inputs] == ["sales", "people"]
    assert [(one.name, one.text, one.at) for one in found.expectations] == [
        ("pandera", f"{found.path.name}:Rows", ("expect", "pandera")),
        ("not_null_store", "", ("columns", "store")),
    ]
    assert [found.sql[one.start : one.end] for one in code.inputs] == [
        one.sql for one in code.inputs
    ]


@pytest.mark.parametrize("opening", ['"""---\n', '"""\n---\n', 'r"""\\\n---\n', "'''---\n"])
def test_how_a_header_may_begin(tmp_path: Path, opening: str) -> None:
    text = SPEED.replace('"""---\n', opening, 1)
    if "'" in opening:
        text = text.replace('words.\n"""', "words.\n'''")
    assert declared(tmp_path, "# Licence\n\n" + text).description == "How fast"


CHANGES = {
    "a comment": ("# said", "# said otherwise"),
    "a docstring": ('"""Words."""', '"""Others."""'),
    "words after the header": ("And more words.", ""),
    "layout": ("n + 1", "(n\n    +\n    1)"),
    "words about it": ("description: How fast", "description: How slow"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_nothing_of_a_model(tmp_path: Path, change: str) -> None:
    assert _said(tmp_path, *CHANGES[change]) == _said(tmp_path, "", "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n + 1", "n + 2"),
        ("n + 1", "n + True"),
        ("return sales", "return people"),
        ("import pandas ", "import pandas as pd "),
        ("double", "float"),
        ("nullable: false, ", ""),
    ],
)
def test_what_makes_another_model_of_it(tmp_path: Path, old: str, new: str) -> None:
    assert _said(tmp_path, old, new) != _said(tmp_path, "", "")


def _said(folder: Path, old: str, new: str) -> object:
    assert old in SPEED
    code = declared(folder, SPEED.replace(old, new) if old else SPEED).python
    assert code is not None
    return code.said()


def test_a_deep_expression_is_no_limit(tmp_path: Path) -> None:
    found = declared(tmp_path, SPEED.replace("n + 1", "n" + " + n" * 700))
    assert found.python is not None


# --- what a file can't say ------------------------------------------------------------------------

WRONG = [
    ('"""---\n', '"""\n', "1:1: a Python model begins with its header"),
    ('---\nAnd more words.\n"""', '"""', "1:1: the header has no end"),
    ("reads:", "reeds:", "7:1: reeds: unknown key; did you mean 'reads'?"),
    ("columns:", "for_: {}\ncolumns:", "11:1: for_: unknown key; did you mean 'for'?"),
    ("type: double", "kind: double", "13:11: columns.score.kind: unknown key"),
    ("type: double", "type: long", "13:17: columns.score.type: Spark writes this type bigint"),
    ("type: double", "type: dubble", "13:17: columns.score.type: 'dubble' is no type of Spark's"),
    ("type: double", "type: tinyint", "13:17: columns.score.type: no table keeps tinyint as it is"),
    ("score:", "STORE:", "13:3: columns.STORE: two columns are called STORE"),
    ("score:", "day:", "13:3: columns.day: the table is partitioned by it"),
    ("[sales.amount,", "[sales,", "13:35: columns.score.made_of[0]: 'sales' is no input.column"),
    ("[sales.amount,", "[sals.a,", "13:35: columns.score.made_of[0]: there is no input sals; did you"),
    ("pandera: Rows}", "pandera: Row}", "14:19: expect.pandera: the file defines no Row at its top level; did"),
    ("  people:", "  day:", "10:3: reads.day: this is a name under `for`, too"),
    ("  people:", "  People:", "10:3: reads.People: an input's name has small letters"),
    ("expect: {pandera: Rows}", "materialized: view", "14:15: materialized: a Python model is a table"),
    ("def speed(", "def sped(", "there is no function speed: a Python model is a function called"),
    ("def speed(", "async def speed(", "36:1: speed is asynchronous"),
    (") -> sql.DataFrame:", ") -> None:", "36:75: speed returns a DataFrame: write -> DataFrame"),
    (") -> sql.DataFrame:", "):", "36:1: speed returns a DataFrame: write -> DataFrame"),
    ("*, day: date", "*ä, day: date", "36:59: speed takes each input, and each name of its scope"),
    ("*, day: date", "/, day: date", "36:11: parameter sales can't be given by its name"),
    ("day: date", "day: date = None", "36:73: a parameter is always given: it has no default"),
    ("day: date", "day", "36:61: parameter day has no type"),
    ("day: date", "dy: date", "36:61: parameter dy is no input under `reads`, and no name under `for`; did"),
    ("sales: sql.DataFrame", "sales: list", "36:11: parameter sales is an input: write sales: DataFrame"),
    ('people: "sql.DataFrame", ', "", "36:1: the function takes no people, which is under `reads`"),
    ("return n + 1", "return n +", "33:15: not valid Python: invalid syntax"),
    ("import pandas ", "import shop ", "21:1: shop is a file beside this one: a model is one file"),
    ("import pandas ", "from . import x ", "21:1: . is a file beside this one"),
    ("import pandas ", "from models.shop import x ", "21:1: models.shop is a file beside"),
    ("import pandas ", "import tools.words ", "21:1: tools.words is a file beside this one"),
    ("return n + 1", "import near", "33:5: near is a file beside this one"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_what_a_file_can_not_say(tmp_path: Path, old: str, new: str, words: str) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "words.py").touch()
    written(tmp_path, "", "shop/near.py")
    assert old in SPEED
    with pytest.raises(ModelError) as caught:
        declared(tmp_path, SPEED.replace(old, new, 1))
    said = re.sub(r"(?m)^.*/speed\.py:\s?", "", str(caught.value)).splitlines()
    assert any(line.startswith(words) for line in said), said


@pytest.mark.parametrize("text", ["", "x = 1\n", "'---'\n", "def speed(): ...\n", "# only words\n"])
def test_a_file_without_a_header(tmp_path: Path, text: str) -> None:
    with pytest.raises(ModelError, match=r"speed\.py:1:1: a Python model begins with its header"):
        declared(tmp_path, text)


def test_two_files_of_one_name(tmp_path: Path) -> None:
    written(tmp_path, SPEED)
    written(tmp_path, "SELECT 1 AS a", "shop/speed.sql")
    found, unread = read_declarations(tmp_path / "models")
    assert (found, unread.names) == ([], {"shop.speed"})
    assert re.search(r"shop\.speed is in .*speed\.py, too", unread.problems[0].message)


# --- beside other models --------------------------------------------------------------------------

Written = Callable[..., Project]


@pytest.fixture
def both(compiled: Compiled, contract: Path) -> Written:  # noqa: F811
    """Compile a Python model ``shop.speed`` beside SQL models."""

    def run(text: str = SPEED, **models: str) -> Project:
        written(contract.parent, text)
        project = compiled(**models)
        run.catalogue = compiled.catalogue  # type: ignore[attr-defined]
        return project

    return run


def test_a_python_model_among_others(both: Written) -> None:
    text = SPEED.replace("FROM s_d.sales", "FROM m.daily").replace("DATE(sold_at)", "sold_on")
    project = both(
        text,
        m__daily=f"---\n{DAYS.replace('day', 'sold_on')}\n---\n"
        "SELECT store, amount FROM s_d.sales WHERE DATE(sold_at) = sold_on",
        m__above="SELECT score, store, day FROM shop.speed WHERE shop = 'Paris'",
    )
    assert list(project.models) == ["m.daily", "shop.speed", "m.above"]
    speed, above = project.models["shop.speed"], project.models["m.above"]
    assert [(f.name, f.value.type, f.value.nullable) for f in speed.fields] == [
        ("store", "string", False),
        ("score", "double", True),
        ("day", "date", False),
        ("shop", "string", False),
    ]
    assert [(f.name, f.value.nullable) for f in above.fields][:2] == [
        ("score", True),
        ("store", False),
    ]
    origins = [f"{o.table}.{o.column}" for o in stored_columns(project, above, "score")]
    assert origins == ["s_d.sales.amount", "s_d__clean.people.born"]
    first, second = inputs_of(project, both.catalogue, speed, speed.scopes[2])  # type: ignore[attr-defined]
    assert first == ModelInput("m.daily", ("sold_on=2024-03-02",), True)
    assert isinstance(second, MirrorInput)
    assert not second.bounded
    assert project.readers["m.daily"] == ("shop.speed",)


def test_show_has_the_query_of_each_input(both: Written, contract: Path) -> None:  # noqa: F811
    project = both()
    wanted = {"day": "2024-03-01", "shop": "Paris"}
    config = load_config(contract)
    lake, ledger = Lake(config.lake), Ledger(config.ledger.url)
    shown = show_model(States(project, both.catalogue, lake, ledger), "shop.speed", wanted)  # type: ignore[attr-defined]
    assert shown.partition is not None
    assert shown.partition.sql == (
        "-- sales\nSELECT store, amount FROM s_d.sales WHERE DATE(sold_at) = DATE '2024-03-01'"
        " AND store = 'Paris';\n-- people\nSELECT id, born FROM s_d__clean.people -- all;"
    )
    assert next((c.name, c.made_of) for c in shown.columns) == ("store", ("s_d.sales.store",))


def test_a_change_above_is_one_of_the_model(both: Written) -> None:
    text = SPEED.replace("FROM s_d.sales", "FROM m.daily").replace("DATE(sold_at)", "DATE(sold_on)")
    daily = "SELECT store, amount, sold_at AS sold_on FROM s_d.sales"
    before = both(text, m__daily=daily).models["shop.speed"].fingerprint
    assert both(text, m__daily=f"-- x\n{daily}").models["shop.speed"].fingerprint == before
    moved = both(text, m__daily=f"{daily} WHERE id > 1").models["shop.speed"].fingerprint
    assert moved != before
    assert both(text.replace("AND store", "OR store"), m__daily=daily).models[
        "shop.speed"
    ].fingerprint not in (before, moved)


BESIDE = [
    ("SELECT store, amount FROM", "SELEC store, amount FROM",
     "8:21: input sales: the query can't be read: Invalid expression / Unexpected token"),
    ("AND store = shop", "AND strore = shop", "9:35: there is no column strore; did you mean 'store'"),
    ("WHERE DATE(sold_at) = day", "WHERE DATE(sold_at) = dai", "9:27: there is no column dai"),
    ("born FROM s_d__clean.people", "born FROM s_d__clean.peopl",
     "10:33: there is no table s_d__clean.peopl; did you mean 's_d__clean.people'"),
    ("SELECT store, amount FROM", "SELECT store, amount, 1 FROM", "8:10: input sales: column 3 has no name"),
    ("SELECT store, amount FROM", "SELECT store, amount, id AS STORE FROM",
     "8:10: input sales: two columns are called STORE"),
    ("SELECT store, amount FROM", "SELECT store, amount, rand() AS r FROM",
     "8:32: rand() gives something else each time"),
    ("people.born]", "people.bon]", "13:49: input people has no column bon; did you mean 'born'?"),
    ("day: date", "day: datetime", "36:61: day is a date: write day: date"),
    ("'P1D')", "'D')", "5:1: `for`: day: 'D' is no period: write it like P1D, P1M or PT1H"),
    ("reads:", "released: [x]\nreads:", "7:1: `released`: there is no column x"),
    ("FROM s_d__clean.people", "FROM shop.speed", "10:33: models read one another in a circle"),
    ("id, born FROM s_d__clean.people -- all", "id FROM s_d.sales; SELECT 1",
     "10:45: input people: a model is one query, not 2"),
    ("id, born FROM s_d__clean.people -- all", "id) AS x, (SELECT 1", "10:21: input people: the query"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), BESIDE)
def test_what_it_can_not_say_beside_others(both: Written, old: str, new: str, words: str) -> None:
    assert old in SPEED
    said = problem(both(SPEED.replace(old, new, 1)))
    assert re.sub(r"^models/shop/speed\.py:\s?", "", said).startswith(words)


@pytest.mark.parametrize("style", ["|", "|-\n", ">", "'"])
def test_places_in_other_texts_of_yaml(both: Written, style: str) -> None:
    old = "SELECT store, amount FROM s_d.sales\n    WHERE DATE(sold_at) = day AND store = shop"
    wrong = old.replace("store = shop", "strore = shop")
    new = {
        "'": f"'{wrong.replace('SELECT', 'SELECT `id`,')}'",
    }.get(style, f"{style.strip()}\n    {wrong}")
    said = problem(both(SPEED.replace(old, new)))
    place = "9:35" if style == "'" else "10:35"
    assert said.startswith(f"models/shop/speed.py:{place}: there is no column strore")


def test_an_input_that_nothing_bounds_is_warned_of(both: Written) -> None:
    model = both(SPEED.replace("DATE(sold_at) = day AND ", "")).models["shop.speed"]
    (words,) = unbounded(both(), both.catalogue, model)  # type: ignore[attr-defined]
    assert words.endswith(
        "speed.py:8:36: every partition reads all of s_d.sales: no condition that can be analysed"
        " bounds its sold_at"
    )


# --- personal data --------------------------------------------------------------------------------

HIDDEN = SPEED.replace("id, born FROM s_d__clean.people", "id, email, born FROM s_d.people")


def test_a_column_is_made_of_what_it_says(both: Written) -> None:
    assert not both(HIDDEN).problems


@pytest.mark.parametrize(
    "text",
    [
        HIDDEN.replace("people.born]", "people.email]"),
        # It says of nothing what it is made of: of everything, then.
        HIDDEN.replace("{type: double, made_of: [sales.amount, people.born]}", "double"),
    ],
)
def test_a_hidden_column_reaches_no_model(both: Written, text: str) -> None:
    said = problem(both(text))
    assert "column score is made of email of s_d.people, which the contract hides" in said
    assert not both(text.replace("reads:", "released: score\nreads:")).problems


def test_what_is_not_read_is_not_what_a_column_is_made_of(both: Written) -> None:
    text = HIDDEN.replace("{type: double, made_of: [sales.amount, people.born]}", "double")
    assert not both(text.replace("id, email, born", "id, born")).problems


def test_a_column_made_of_nothing_beside_a_hidden_one_needs_released(
    both: Written,
) -> None:
    """Nobody looks at the code: what it says of nothing is not taken for a value of nobody."""
    text = HIDDEN.replace("[sales.amount, people.born]", "[]")
    said = problem(both(text))
    assert said.startswith(
        "models/shop/speed.py:13:3: column score is made of nothing, as the file says, and the "
        "function is given email of s_d.people, which the contract hides"
    )
    project = both(text.replace("reads:", "released: score\nreads:"))
    assert not project.problems
    assert stored_columns(project, project.models["shop.speed"], "score") == []
    assert not both(text.replace("id, email, born", "id, born")).problems


@pytest.mark.parametrize(
    ("imports", "call", "said"),
    [
        ("import datetime as dt", "dt.datetime.now()", "datetime.now"),
        ("from datetime import date as day", "day.today()", "day.today"),
        ("from time import time as clock", "clock()", "clock"),
        ("import uuid", "uuid.uuid4()", "uuid.uuid4"),
        ("import random", "random.random()", "random.random"),
        ("from pyspark.sql import functions as F", "F.current_date()", "F.current_date"),
        ("from pyspark.sql.functions import rand", "rand(7)", "rand"),
        ("import random", "random.seed(1) or random.random()", ""),
        ("import random", "random.Random(1).random()", ""),
        ("from pyspark.sql import functions as F", "F.unix_timestamp('at')", ""),
        ("import datetime as dt", "dt.datetime(2024, 1, 1)", ""),
    ],
)
def test_the_clock_and_chance_are_refused_by_their_names(
    imports: str, call: str, said: str
) -> None:
    tree = parse_python(Path("x.py"), f"{imports}\n\ndef x():\n    return {call}\n")
    assert [name for _, name in unsteady_calls(tree)] == ([said] if said else [])
