"""What becomes of models when tables of the mirror get other columns: every place is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.ledger import Ledger
from mirrorlake.models.changes.impact import impacts_of, with_costs
from mirrorlake.models.compile.column_uses import readings, table_places
from mirrorlake.models.compile.model import Project
from mirrorlake.models.ledger import ModelPartition, ModelRecords
from mirrorlake.operations.planning.reader_impacts import ModelImpact
from mirrorlake.operations.schema_changes.altered_tables import AlteredCatalogue, AlteredTable
from tests.unit.models.test_project import DAYS, Compiled

SALES = (
    ("id", "int", True), ("sold_at", "timestamp_ntz", True), ("store", "string", True),
    ("amount", "decimal(10,2)", True),
)  # fmt: skip


def changed(
    *columns: tuple[str, str, bool], **types: str | None
) -> tuple[tuple[str, str, bool], ...]:
    """The columns of `sales` with other types, without those that are None, and with some more."""
    kept = [one for one in SALES if types.get(one[0], "") is not None]
    return (*((n, types.get(n) or kind, null) for n, kind, null in kept), *columns)


def impacts(
    compiled: Compiled,
    columns: Sequence[tuple[str, str, bool]],
    renamed: Mapping[str, str] | None = None,
    **models: str,
) -> tuple[Project, list[ModelImpact]]:
    project = compiled(**models)
    project.raise_problems()
    table = AlteredTable(tuple(columns), renamed or {})
    catalogue = AlteredCatalogue(compiled.catalogue, {"s_d.sales": table})  # type: ignore[attr-defined]
    return project, impacts_of(project, catalogue)


def said(found: Sequence[ModelImpact]) -> list[tuple[str, str, list[str]]]:
    """Model, what becomes of it, and its places and words without the folder."""
    return [
        (one.model, one.what, [words[words.find("models/") :] if "models/" in words else words
                               for words in (*(p.said for p in one.places), *one.words)])
        for one in found
    ]  # fmt: skip


def test_a_dropped_column_is_named_through_the_models_between(compiled: Compiled) -> None:
    _, found = impacts(
        compiled,
        changed(amount=None),
        m__a=f"---\n{DAYS}\n---\nSELECT store,\n  SUM(amount) AS total FROM s_d.sales\nWHERE DATE(sold_at) = day GROUP BY store",
        m__b="SELECT MAX(total) AS most FROM m.a",
        m__c="SELECT most + 1 AS more FROM m.b",
        m__other="SELECT id FROM s_d.sales",
        m__born="SELECT born FROM s_d.people",
    )
    assert said(found) == [
        (
            "m.a",
            "breaks",
            [
                "models/m/a.sql:5:7: m.a reads amount of s_d.sales, which is gone then",
                "models/m/a.sql:5:7: there is no column amount",
            ],
        ),
        (
            "m.b",
            "breaks",
            [
                "models/m/b.sql:1:12: m.b reads total of m.a, which is made of amount of "
                "s_d.sales: that is gone then",
                "models/m/b.sql:1:32: m.b reads m.a, which does not compile then",
            ],
        ),
        (
            "m.c",
            "breaks",
            [
                "models/m/c.sql:1:8: m.c reads most of m.b, which is made of amount of "
                "s_d.sales: that is gone then",
                "models/m/c.sql:1:30: m.c reads m.b, which does not compile then",
            ],
        ),
    ]
    assert not any(one.compiles for one in found)
    assert {one.tables for one in found} == {("s_d.sales",)}


def test_a_rename_says_the_new_name(compiled: Compiled) -> None:
    columns = [("shop" if n == "store" else n, kind, null) for n, kind, null in SALES]
    _, found = impacts(
        compiled, columns, {"store": "shop"}, m__a="SELECT store FROM s_d.sales WHERE store > ''"
    )
    ((_, what, words),) = said(found)
    assert what == "breaks"
    assert words[:2] == [
        "models/m/a.sql:1:8: m.a reads store of s_d.sales, which is called shop then",
        "models/m/a.sql:1:35: m.a reads store of s_d.sales, which is called shop then",
    ]


@pytest.mark.parametrize(
    ("kind", "what", "fits", "words"),
    [
        # A decimal's sum has a type of its own: it is another column then.
        ("decimal(12,2)", "breaks", True, "m.a: total was decimal(20,2), and is decimal(22,2)"),
        ("double", "breaks", False, "m.a: total was decimal(20,2), and is double"),
    ],
)
def test_a_type_goes_through(
    compiled: Compiled,
    kind: str,
    what: str,
    fits: bool,
    words: str,
) -> None:
    _, found = impacts(
        compiled, changed(amount=kind), m__a="SELECT SUM(amount) AS total FROM s_d.sales"
    )
    (one,) = found
    assert (one.what, one.fits, one.words) == (what, fits, (words,))
    assert [place.words for place in one.places] == [f"was decimal(10,2), is {kind} then"]


def test_a_type_that_changes_no_column_is_said_and_no_more(compiled: Compiled) -> None:
    count = "SELECT COUNT(id) AS n FROM s_d.sales"
    _, (wider,) = impacts(compiled, changed(id="bigint"), m__a=count)
    assert (wider.what, wider.fits, wider.words) == ("reads", True, ())
    _, (other,) = impacts(compiled, changed(id="string"), m__a=count)
    assert (other.what, other.fits) == ("reads", False)


def test_a_star_has_what_comes_and_what_goes(compiled: Compiled) -> None:
    star = "SELECT t.* FROM s_d.sales AS t"
    _, (one,) = impacts(compiled, changed(amount=None), m__a=star)
    assert (one.what, one.words) == ("breaks", ("m.a: amount is gone",))
    assert [place.place.rpartition("a.sql:")[2] for place in one.places] == ["1:10"]
    news = [*SALES[:2], ("note", "date", True), *SALES[2:]]
    _, (one,) = impacts(compiled, news, m__a=star)
    # A column that nobody decided on is hidden from models that read deduped.
    assert one.what == "breaks"
    assert "note of s_d.sales, which the contract hides" in one.words[0]


def test_a_column_that_comes_through_a_star_is_computed(compiled: Compiled) -> None:
    project = compiled(m__a="SELECT * FROM s_d__clean.sales", m__b="SELECT id FROM m.a")
    columns = changed(("packed", "date", True), ("note", "string", True))
    table = AlteredTable(columns, {})
    catalogue = AlteredCatalogue(compiled.catalogue, {"s_d__clean.sales": table})  # type: ignore[attr-defined]
    found = impacts_of(project, catalogue)
    assert said(found) == [
        ("m.a", "again", ["m.a: note string is new"]),
        ("m.b", "again", ["m.b: a model that it reads changes"]),
    ]


def test_a_new_column_makes_names_ambiguous_or_takes_a_scopes_name(compiled: Compiled) -> None:
    models = {
        "m__a": "SELECT s.id, born FROM s_d.sales AS s JOIN s_d.people AS p ON s.id = p.id",
        "m__b": f"---\n{DAYS}\n---\nSELECT id FROM s_d.sales WHERE DATE(sold_at) = day",
        "m__c": "SELECT s.id FROM s_d.sales AS s JOIN s_d.people AS p ON s.id = p.id",
    }
    _, found = impacts(compiled, changed(("born", "int", True), ("day", "date", True)), **models)
    assert [(name, what) for name, what, _ in said(found)] == [("m.a", "breaks"), ("m.b", "breaks")]
    assert (
        "models/m/a.sql:1:14: column born is ambiguous: 2 of the sources have it"
        in said(found)[0][2]
    )
    assert (
        "models/m/b.sql:4:48: day is a column of a source and a name under `for`"
        in said(found)[1][2]
    )


def test_a_table_that_no_model_reads_costs_nothing(compiled: Compiled) -> None:
    _, found = impacts(compiled, changed(amount=None), m__a="SELECT born FROM s_d.people")
    assert found == []


def test_what_is_computed_again_is_counted(compiled: Compiled, contract: Path) -> None:
    ledger = Ledger(f"sqlite:///{contract.parent / 'ledger.db'}")
    records = [
        ModelPartition("m.a", key, "f", "t", 1, {}, rows, seconds, "run")
        for key, rows, seconds in (
            ("day=2024-03-01", 2, 1.0), ("day=2024-03-02", 5, 2.0), ("day=1999-01-01", 99, 99.0),
        )
    ]  # fmt: skip
    ModelRecords(ledger).record_partitions(records)
    text = f"---\n{DAYS}\n---\nSELECT SUM(amount) AS total FROM s_d.sales WHERE DATE(sold_at) = day"
    project, (one,) = impacts(compiled, changed(amount="double"), m__a=text)
    found = with_costs(one, project.models["m.a"], ledger)
    # A partition that is none any more is not computed again.
    assert (found.partitions, found.forecast.rows, found.forecast.seconds) == (2, 7, 3.0)
    project, (one,) = impacts(compiled, changed(amount=None), m__a=text)
    assert with_costs(one, project.models["m.a"], ledger).partitions == 0


# --- readings -------------------------------------------------------------------------------------


def places(compiled: Compiled, text: str, **more: str) -> dict[str, list[str]]:
    project = compiled(m__a=text, **more)
    project.raise_problems()
    found: dict[str, list[str]] = {}
    for one in readings(project.models["m.a"], "s_d.sales", [name for name, _, _ in SALES]):
        found.setdefault(one.column, []).append(f"{one.line}:{one.col}")
    return found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT s.id FROM s_d.sales AS s", {"id": ["1:10"]}),
        (
            "SELECT x FROM s_d.sales AS s (x, y, z, w) WHERE y IS NOT NULL",
            {"id": ["1:8"], "sold_at": ["1:49"]},
        ),
        ("SELECT * FROM s_d.sales", {n: ["1:8"] for n in ("id", "sold_at", "store", "amount")}),
        ("SELECT * EXCEPT (sold_at, amount) FROM s_d.sales", {"id": ["1:8"], "store": ["1:8"]}),
        (
            "SELECT id, born FROM s_d.sales JOIN s_d.people USING (id)",
            {"id": ["1:8", "1:55"]},
        ),
        (
            "WITH c AS (SELECT store AS s FROM s_d.sales)\nSELECT s FROM c",
            {"store": ["1:19"]},
        ),
        (
            "SELECT id FROM s_d.people WHERE EXISTS (SELECT 1 FROM s_d.sales AS s WHERE s.id = 1)",
            {"id": ["1:78"]},
        ),
        ("SELECT born FROM s_d.people", {}),
    ],
)
def test_where_a_query_names_columns(compiled: Compiled, text: str, wanted: Any) -> None:
    assert places(compiled, text) == wanted


def test_where_a_query_names_a_table(compiled: Compiled) -> None:
    project = compiled(
        m__a=f"---\n{DAYS}\n---\nSELECT s.id FROM s_d.sales AS s\nJOIN s_d.sales AS t USING (id)"
    )
    found = [
        place.rpartition("a.sql:")[2] for place in table_places(project.models["m.a"], "s_d.sales")
    ]
    assert found == ["4:18", "5:6"]
