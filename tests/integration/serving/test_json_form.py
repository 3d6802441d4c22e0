"""JSON by its structure (``json_as: structure``): equal documents are one text, and no digit, key
or character is lost. Judged by Python's own reader of JSON, with numbers of any length."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError
from mirrorlake.merge.row_sql.json_form import json_structure
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.lakes import READERS
from tests.integration.tenants import Tenants

KEPT = (
    *("1 2", "1],[2", '1,"b":2', '1} , {"a":1', "1]", "1}", "{}{}", "[1,]", "{a:1}", "'a'", "01"),
    *("", " ", "nul", "TRUE", "+1", ".5", "1.", "NaN", "[1", "\ufeff1", '"a\tb"', "/**/1", "x"),
    *('{"a":1,"a":2}', '{"a":{"b":1,"b":1}}', r'"\ud800"', r'"\ude00\ud83d"', r'"\\\ud83d"'),
    *(r'"\\\\ud83d\ude00"', "1" * 39, "0." + "1" * 38, "1e400", "1E-400", "1.2345678901234567e5"),
    *("-" + "9" * 60, "[" * 1_200 + "]" * 1_200, '{"a": ' + "1" * 2_000 + "}"),
)
"""Texts that stay as they are: no document, or one of which something would be lost."""
ONE_TEXT = {
    '{"a":2,"b":1}': ('{"b":1,"a":2}', ' { "a" : 2.0 ,\n\t"b":1.00 }\r\n', r'{"\u0061":2,"b":1}'),
    "[1,2]": ("[1, 2]", "[ 1.0,2.000 ]", "[1,2]"),
    "1.5": ("1.50", "1.5000000000000000000000000000000000"),
    "0": ("0", "-0", "0.000", "-0.0"),
    "100": ("1e2", "1E+2", "100000e-3", "100.0", "100"),
    "0.001": ("1e-3", "0.0010"),
    "1.0E7": ("1e7", "10.00E+6"),
    "1.0E-7": ("1e-7", "1.0E-07"),
    '"é😀/"': (r'"\u00e9\ud83d\ude00\/"', '"é😀/"', r'"\u00E9\uD83D\uDE00/"'),
    '"\\"\\\\ud83d\\n"': (r'"\u0022\\ud83d\n"', r'"\"\u005cud83d\u000a"'),
    "-99999999999999999999999999999999999999": ("-" + "9" * 38,),
    "18446744073709551615": ("18446744073709551615", "18446744073709551615.0"),
    "null": ("null", " null "),
    "{}": ("{}", "{ }"),
}
"""The form → documents that have it."""


def shown(place: Place, texts: Sequence[str | None]) -> list[str | None]:
    spark = place.spark.get()
    frame = spark.createDataFrame(list(enumerate(texts)), "at int, t string")
    rows = frame.selectExpr("at", f"{json_structure('t')} AS t").collect()
    return [row.t for row in sorted(rows, key=lambda row: row.at)]


def read(text: str) -> Any:
    """What a document says, with every digit."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def test_equal_documents_are_one_text(place: Place) -> None:
    pairs = [(form, text) for form, texts in ONE_TEXT.items() for text in texts]
    texts: list[str | None] = [text for _, text in pairs]
    found = shown(place, [*texts, *ONE_TEXT, None])
    assert found[: len(pairs)] == [form for form, _ in pairs]
    assert found[len(pairs) :] == [*ONE_TEXT, None]  # a form is its own form
    for form, text in pairs:
        assert read(form) == read(text)


def test_what_would_be_lost_stays_as_it_is(place: Place) -> None:
    found = shown(place, KEPT)
    assert [(a, b) for a, b in zip(KEPT, found, strict=True) if a != b] == []


def drawn(chance: random.Random, depth: int = 0) -> Any:
    """A document of any kind."""
    kind = chance.randrange(7 if depth < 4 else 4)
    if kind == 0:
        digits = chance.choice([3, 15, 17, 20, 34, 37, 38, 39, 45])
        number = "".join(chance.choices("0123456789", k=digits)).lstrip("0") or "0"
        point = chance.choice([None, None, 1, digits // 2])
        whole = number if point is None or point >= len(number) else None
        sign = chance.choice(["", "-"])
        power = chance.choice(["", "", "", "e5", "E-7", "e+22", "e300", "e-330"])
        return Decimal(sign + (whole or f"{number[:point]}.{number[point:]}") + power)
    if kind == 1:
        return "".join(chance.choices('aé😀"\\/\n\t\x01\u2028 ud83e1', k=chance.randrange(9)))
    if kind == 2:
        return chance.choice([True, False, None])
    if kind < 5:
        return [drawn(chance, depth + 1) for _ in range(chance.randrange(4))]
    names = ["".join(chance.choices('aBé😀"\\1', k=chance.randrange(4))) for _ in range(4)]
    return {name: drawn(chance, depth + 1) for name in names}


def written(document: Any, chance: random.Random) -> str:
    """It as text: its keys in any order, with spaces and escapes here and there."""
    gap = lambda: chance.choice(["", "", " ", "\n", "\t "])  # noqa: E731
    if isinstance(document, Decimal):
        return str(document).replace("E+", chance.choice(["E+", "e"]))
    if isinstance(document, list):
        parts = (gap() + written(one, chance) + gap() for one in document)
        return f"[{','.join(parts)}]"
    if isinstance(document, dict):
        names = [*document]
        chance.shuffle(names)
        pairs = (
            f"{gap()}{written(name, chance)}{gap()}:{written(document[name], chance)}"
            for name in names
        )
        return f"{{{','.join(pairs)}{gap()}}}"
    return json.dumps(document, ensure_ascii=chance.random() < 0.5)


@pytest.mark.full
def test_documents_of_any_kind_say_the_same(place: Place) -> None:
    chance = random.Random(24)  # noqa: S311
    documents = [drawn(chance) for _ in range(600)]
    first = [written(one, chance) for one in documents]
    second = [written(one, chance) for one in documents]
    forms = shown(place, [*first, *second])
    for number, text in enumerate([*first, *second]):
        form = forms[number]
        assert form is not None
        assert read(form) == read(text), text
    for document, *of_one in zip(documents, first, second, forms[:600], forms[600:], strict=True):
        if is_kept(document):
            assert of_one[:2] == of_one[2:]
        else:
            assert of_one[2] == of_one[3]


def is_kept(document: Any) -> bool:
    """Whether it has a number that Spark may not keep exactly."""
    if isinstance(document, list):
        return any(is_kept(one) for one in document)
    if isinstance(document, dict):
        return any(is_kept(one) for one in document.values())
    if not isinstance(document, Decimal):
        return False
    digits, _, power = str(document).upper().lstrip("-").partition("E")
    return len(digits) > (16 if power else 38) or len(power.lstrip("+-")) > 2


@pytest.mark.full
def test_a_large_document(place: Place) -> None:
    text = json.dumps({"b": '\\"é' * 400_000, "a": [1.5] * 100_000, "c": '"' * 100_000})
    [found] = shown(place, [text])
    assert found is not None
    assert json.loads(found) == json.loads(text)
    assert found.startswith('{"a":[1.5,')
    beyond = '{"b": 1, "a": "' + "x" * (17 * 2**20) + '"}'
    [found] = shown(place, [beyond])
    assert found is not None
    assert json.loads(found) == json.loads(beyond)


@pytest.mark.full
@pytest.mark.parametrize("which", ["mariadb", "mysql8"])
@pytest.mark.parametrize("versions", ["view", "table"])
def test_a_column_that_becomes_json_and_back(
    place: Place, which: str, versions: str, request: pytest.FixtureRequest
) -> None:
    server: EmbeddedServer = request.getfixturevalue(which)
    database = f"j{uuid.uuid4().hex[:10]}"
    document = """{"b": 1.50, "aaa": [ 1, {"z":null,"é":true} ],\n"c":"\\u00e9"}"""
    form = '{"aaa":[1,{"z":null,"é":true}],"b":1.5,"c":"é"}'
    terms: dict[str, Any] = {"mode": "full", "key": ["id"], "versions": versions}

    def workspace_of(rule: str) -> Workspace:
        columns = {"DOC": {"pii": "show", "json_as": rule}}
        tables = {"t": {**terms, "columns": columns}}
        path = write_contract(
            place.folder / f"{database}.yaml", server.port, {database: {"tables": tables}}
        )
        return Workspace.open(load_config(path), spark=place.spark)

    with server.admin() as admin, admin.cursor() as cursor:

        def sync(rule: str = "structure") -> list[str | None]:
            workspace = workspace_of(rule)
            [contract] = workspace.config.tables
            sync_table(workspace, contract)
            return documents_of(workspace)

        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {database}")
        cursor.execute("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, doc TEXT)")
        cursor.execute("INSERT INTO t VALUES (1, %s), (2, NULL)", (document,))
        assert sync() == [None, form]
        cursor.execute("ALTER TABLE t MODIFY doc JSON")
        cursor.execute("SELECT doc FROM t WHERE id = 1")
        [[printed]] = cursor.fetchall()
        # MySQL prints it by its own order, MariaDB as it was written.
        assert (printed == document) == (which == "mariadb")
        assert sync() == [None, None, form, form]
        assert sync("text") == [None, None, *sorted([document, printed])]
        assert sync() == [None, None, form, form]
        cursor.execute("ALTER TABLE t MODIFY doc VARCHAR(200)")
        cursor.execute("INSERT INTO t VALUES (3, 'no document')")
        assert sync() == [None, None, None, "no document", form, form, form]
        # Deduped has what MySQL prints.
        workspace = workspace_of("structure")
        [contract] = workspace.config.tables
        deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
        assert deduped is not None
        assert printed in deduped.scan().to_arrow()["doc"].to_pylist()
        cursor.execute(f"DROP DATABASE {database}")


def documents_of(workspace: Workspace) -> list[str | None]:
    """The column, as whatever engine can read it, sorted."""
    [contract] = workspace.config.tables
    name = Identifier(contract.namespaces.raw, contract.table)
    found = [workspace.spark.get().table(name.sql).toArrow()["doc"].to_pylist()]
    if contract.versions == "table":
        table = workspace.lake.load(name)
        assert table is not None
        found += [reader(table)["doc"].to_pylist() for reader in READERS.values()]
    ordered = [sorted(one, key=lambda text: (text is not None, text or "")) for one in found]
    assert all(one == ordered[0] for one in ordered)
    return ordered[0]


@pytest.mark.full
def test_a_number_is_no_document(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 1)")
    columns = {"n": {"pii": "show", "json_as": "structure"}}
    workspace = engine_for({"t": {"mode": "full", "key": ["id"], "columns": columns}})
    [contract] = workspace.config.tables
    with pytest.raises(ConfigError, match=r"column 'n' is int in the lake, which holds no JSON"):
        sync_table(workspace, contract)


@pytest.mark.full
@pytest.mark.parametrize("which", ["mariadb", "mysql8"])
def test_tenants_show_equal_documents_as_one_text(
    place: Place, which: str, request: pytest.FixtureRequest
) -> None:
    tenants = Tenants(request.getfixturevalue(which), place, f"j{uuid.uuid4().hex[:8]}")
    try:
        tenants.make("a", "id INT PRIMARY KEY, doc TEXT", """(1, '{"b": 1.0, "aaa":  [2]}')""")
        tenants.make("b", "id INT PRIMARY KEY, doc JSON", """(1, '{"aaa":[2.00],"b":1}')""")
        tenants.sync()
        assert len({row["doc"] for row in tenants.shown("raw")}) == 2
        tenants.contract["columns"] = {"doc": {"pii": "show", "json_as": "structure"}}
        tenants.sync()
        assert {row["doc"] for row in tenants.shown("raw")} == {'{"aaa":[2],"b":1}'}
        assert len({row["doc"] for row in tenants.shown()}) == 2
    finally:
        tenants.close()
