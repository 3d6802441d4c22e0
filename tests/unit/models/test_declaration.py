"""A model's file: what its header says, and every way in which it can't be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorlake.errors import ModelError
from mirrorlake.models.files.declaration import read_declaration, read_declarations
from mirrorlake.models.files.model_files import MOST_BYTES
from mirrorlake.models.scope_values.comprehension import Binding

WHOLE = """\
---
description: What each store sold, by day
owner: data@example.com
materialized: view
for:
  day: TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')
  store: [Paris, Detroit]
if: store <> 'Detroit'
partition_by: day
---

SELECT product
FROM sales
"""


def written(folder: Path, text: str | bytes, name: str = "shop/sales.sql") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refused(folder: Path, text: str | bytes, name: str = "shop/sales.sql") -> ModelError:
    with pytest.raises(ModelError) as caught:
        read_declaration(written(folder, text, name))
    return caught.value


def listed(folder: Path, values: str) -> tuple[str, ...] | str:
    text = f"---\nfor:\n  x: {values}\n---\nSELECT 1 AS a\n"
    return read_declaration(written(folder, text)).scopes.bindings[0].values


def test_all_that_a_header_says(tmp_path: Path) -> None:
    found = read_declaration(written(tmp_path, WHOLE))
    assert (found.name, found.owner, found.materialized) == (
        "shop.sales",
        "data@example.com",
        "view",
    )
    assert found.description == "What each store sold, by day"
    assert found.scopes.bindings == (
        Binding("day", "TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')", 6),
        Binding("store", ("Paris", "Detroit"), 7),
    )
    assert (found.scopes.condition, found.scopes.line) == ("store <> 'Detroit'", 8)
    assert found.partition_by == ("day",)
    assert (found.sql, found.sql_line) == ("\nSELECT product\nFROM sales\n", 11)


def test_what_a_header_leaves_out(tmp_path: Path) -> None:
    for text in ("SELECT 1 AS a", "---\n---\nSELECT 1 AS a"):
        found = read_declaration(written(tmp_path, text))
        assert (found.sql, found.materialized, found.partition_by) == ("SELECT 1 AS a", "table", ())
        assert found.owner is None
    found = read_declaration(written(tmp_path, "---\nfor:\n  a: [x]\n  b: [y]\n---\nSELECT 1 AS a"))
    assert found.partition_by == ("a", "b")
    text = "---\nfor: {a: [x]}\npartition_by: []\n---\nSELECT 1 AS a"
    assert read_declaration(written(tmp_path, text)).partition_by == ()


@pytest.mark.parametrize("change", ["\r\n", "\r", "bom", "spaces"])
def test_what_editors_do_to_a_file(tmp_path: Path, change: str) -> None:
    text = WHOLE
    if change == "bom":
        text = "\ufeff" + text
    elif change == "spaces":
        text = text.replace("---\n", "---  \n")
    else:
        text = text.replace("\n", change)
    assert read_declaration(written(tmp_path, text)) == read_declaration(written(tmp_path, WHOLE))


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ("[2024-01-05, 2024-01-06]", ("2024-01-05", "2024-01-06")),
        ("[no, on, yes, true, off]", ("no", "on", "yes", "true", "off")),
        ("[007, 0x10, 1_000, 1e3, .5]", ("007", "0x10", "1_000", "1e3", ".5")),
        ("[10:30, 1:30:00]", ("10:30", "1:30:00")),
        ("[=, <<, '~', 'null']", ("=", "<<", "~", "null")),
        ("['it''s', \"a\\tb\"]", ("it's", "a\tb")),
        ("2024-01-05", "2024-01-05"),
        ("7", "7"),
    ],
)
def test_values_are_the_texts_that_are_written(
    tmp_path: Path, values: str, found: tuple[str, ...] | str
) -> None:
    assert listed(tmp_path, values) == found


@pytest.mark.parametrize(
    ("header", "problems"),
    [
        ("ower: x", ["2:1: ower: unknown key; did you mean 'owner'?"]),
        ("materialized: veiw", ["2:15: materialized: 'veiw' is not 'table', 'view', 'stream view' or 'snapshot'; did you mean 'view'?"]),
        ("ower: x\nmaterialised: view", ["2:1: ower: unknown key", "3:1: materialised: unknown key"]),
        ("owner: a\nowner: b", ["3:1: owner: this key is already on line 2"]),
        ("for: [a]", ["2:6: for: "]),
        ("for:\n  Day: [a]\n  x y: [b]", ["3:3: for.Day: a name has small letters", '4:3: for."x y": a name has']),
        ("for:\n  a: []\n  b: {c: d}\n  e: [[f]]\n  g: [~]\n  h:", [f"{n}:" for n in (3, 4, 5, 6, 7)]),
        ("for:\n  a: [x]\npartition_by: b", ["4:15: partition_by: b is not bound under `for`"]),
        ("for: {a: RANGE(0, 2, 1), b: [x]}", ["2:10: for.a: RANGE(0 ends here: put an expression in quotes"]),
        ("retention: 10 days", ["2:12: retention: '10 days' is no retention: write 90d, 36h, or P3M"]),
        ("for: {d: [1, ~]}", ["2:10: for.d: NULL names no partition: leave it out of the list"]),
        ("for: {d: []}", ["2:10: for.d: the list is empty"]),
        ("for: {d: [[1]]}", ["2:10: for.d: each value of a list is a text or a number"]),
        ("for: {d: {a: 1}}", ["2:10: for.d: a list of values or an expression is expected"]),
        ("partition_by: day", ["partition_by: day is not bound under `for`"]),
        ("- a\n- b", ["2:1: the header is a mapping"]),
        ("a: [b", ["not valid YAML: a list is not closed"]),
        ("a: b: c", ["2:5: not valid YAML: a ':' is not expected here"]),
        ("description: !x y", ["2:14: description: the tag '!x' has no meaning here"]),
        ("description: [a]", ["2:14: description: a text is expected"]),
    ],
)  # fmt: skip
def test_every_problem_is_told_with_its_place(
    tmp_path: Path, header: str, problems: list[str]
) -> None:
    error = refused(tmp_path, f"---\n{header}\n---\nSELECT 1 AS a\n")
    lines = error.message.splitlines()
    assert len(lines) == len(problems)
    for line, problem in zip(lines, problems, strict=True):
        assert line.startswith(f"{tmp_path / 'shop' / 'sales.sql'}:")
        assert problem in line
    assert error.line is not None
    assert f":{error.line}:{error.col}: " in lines[0]


def test_a_header_without_an_end(tmp_path: Path) -> None:
    error = refused(tmp_path, "---\nowner: a\nSELECT 1 AS a\n")
    assert "sales.sql:1:1: the header has no end" in error.message
    assert error.next_step == "Close it by a line of ---"


def test_a_file_that_is_no_text_or_too_long(tmp_path: Path) -> None:
    error = refused(tmp_path, b"SELECT '\xff'")
    assert error.message.endswith("sales.sql can't be read: byte 9 is no UTF-8")
    assert "has more than 1,048,576 characters" in refused(tmp_path, "-" * (MOST_BYTES + 1)).message
    with pytest.raises(ModelError, match=r"can't be read: No such file or directory$"):
        read_declaration(tmp_path / "shop" / "none.sql")


@pytest.mark.parametrize(
    "name", ["Shop/a.sql", "shop/A.sql", "shop/1a.sql", "shop/a b.sql", "shop/a.b.sql", "shöp/a.sql", "shop/.sql"]
)  # fmt: skip
def test_names_that_no_model_has(tmp_path: Path, name: str) -> None:
    assert "can't name a model" in refused(tmp_path, "SELECT 1 AS a", name).message


def test_a_folder_of_models(tmp_path: Path) -> None:
    for name in ("b/y.sql", "a/x.sql", "a/y.sql", "a/_x.py", "a/notes.txt"):
        written(tmp_path, "SELECT 1 AS a", name)
    found, unread = read_declarations(tmp_path)
    assert ([one.name for one in found], unread.problems) == (["a.x", "a.y", "b.y"], ())
    assert read_declarations(tmp_path / "nothing")[0] == []
    # Where names differ in case alone, one of them has letters that no name has.
    written(tmp_path, "SELECT 1 AS a", "A/x.sql")
    written(tmp_path, "---\nwner: me\n---\nSELECT 1 AS a", "b/y.sql")
    found, unread = read_declarations(tmp_path)
    assert [one.name for one in found] == ["a.x", "a.y"]
    assert unread.names == {"A.x", "b.y"}
    with pytest.raises(
        ModelError,
        match=r"(?s)'A' can't name a model\. Use small letters.*y\.sql:2:1: wner: unknown",
    ):
        unread.raise_problems()


def test_an_error_in_the_query_is_told_with_the_line_of_the_file(tmp_path: Path) -> None:
    found = read_declaration(written(tmp_path, WHOLE))
    error = found.located(ModelError("there is no column x", place=(2, 8), next_step="Look"))
    assert error.message == f"{found.path}:12:8: there is no column x"
    assert (error.line, error.col, error.next_step) == (12, 8, "Look")
    assert found.located(ModelError("no")).message == f"{found.path}: no"


def test_a_partition_column_twice_and_a_header_alone(tmp_path: Path) -> None:
    twice = refused(tmp_path, "---\nfor: {x: [a]}\npartition_by: [x, x]\n---\nSELECT 1 AS a")
    assert ":3:15: partition_by: x is there twice" in twice.message
    alone = refused(tmp_path, "---\nowner: me\n---\n\n")
    assert alone.message.endswith("sales.sql:4:1: there is no query")


@pytest.mark.parametrize("name", ["sales.sql", "shop/old/sales.sql"])
def test_a_file_where_no_model_is_looked_for_is_said(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, "SELECT 1 AS a", name)
    _, unread = read_declarations(tmp_path)
    assert f"{path} is not where a model is" in unread.problems[0].message
