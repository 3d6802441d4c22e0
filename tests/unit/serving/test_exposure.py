"""What clean shows, on lake tables and views made by hand: no server, no Spark."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyiceberg.catalog.sql import SqlCatalog

from mirrorlake.config import ColumnRule, LakeConfig, Namespaces, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_current_table
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Ledger
from mirrorlake.schema.masking import keyed_hash, mask_sql
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.schema.versions import schema_version
from mirrorlake.serving.masking_audit import find_exposed, stored_pci, view_columns

COLUMNS = [("id", "int"), ("mail", "string"), ("phone", "string"), ("born", "date"), ("n", "int")]
RULES = {
    "mail": ColumnRule(pii="hash"),
    "phone": ColumnRule(pii="mask"),
    "born": ColumnRule(pii="null"),
    "name": ColumnRule(pii="drop"),
    "card": ColumnRule(pci="never"),
}
HASHED = keyed_hash(b"k" * 16)
PEOPLE = [
    {"id": 1, "mail": "a@example.com", "phone": "0123456", "born": None, "n": 1, ORIGINAL: []},
    {"id": 2, "mail": "b@example.com", "phone": "99", "born": None, "n": 2, ORIGINAL: []},
    {"id": 3, "mail": None, "phone": None, "born": None, "n": 3, ORIGINAL: []},
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(LakeConfig(warehouse=str(tmp_path / "lake")))


def contract(**columns: ColumnRule) -> TableContract:
    return TableContract(
        source="s",
        database="d",
        table="people",
        mode="full",
        key=("id",),
        columns=columns or RULES,
        namespaces=Namespaces(raw="r", deduped="d", clean="c"),
    )


def write(lake: Lake, namespace: str, columns: Any, rows: list[dict[str, Any]]) -> None:
    table = ensure_current_table(
        lake, Identifier(namespace, "people"), current_schema(columns, True)
    )
    table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))


def masked(row: dict[str, Any]) -> dict[str, Any]:
    phone = row["phone"]
    shown = None if phone is None else "********" + (phone[-2:] if len(phone) >= 6 else "")
    return {**row, "mail": HASHED(row["mail"], None), "phone": shown, "born": None}


def found(
    lake: Lake, clean: list[dict[str, Any]], deduped: list[dict[str, Any]] = PEOPLE
) -> dict[str, str]:
    write(lake, "d", COLUMNS, deduped)
    write(lake, "c", COLUMNS, clean)
    return find_exposed(lake, contract()).found


def test_a_clean_table_by_the_rules_exposes_nothing(lake: Lake) -> None:
    assert found(lake, [masked(row) for row in PEOPLE]) == {}


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("mail", "b@example.com", "shows 1 values as they are, and the rule is hash"),
        ("phone", "0123456", "shows 1 values as they are, and the rule is mask"),
        ("born", "2001-01-01", "shows 1 values as they are, and the rule is null"),
    ],
)
def test_a_value_that_comes_through_is_seen(
    lake: Lake, column: str, value: str, words: str
) -> None:
    """In one row of three, and never told itself."""
    rows = [masked(row) for row in PEOPLE]
    rows[2][column] = pa.scalar(value).cast(pa.date32()).as_py() if column == "born" else value
    shown = found(lake, rows)
    assert shown == {column: words}
    assert value not in str(shown)


@pytest.mark.parametrize(
    ("stored", "shown", "secret", "seen"),
    [("int", "string", 2, "2"), ("binary", "binary", b"\xff\0", b"\xff\0")],
)
def test_values_that_are_no_texts_are_seen_too(
    lake: Lake, stored: str, shown: str, secret: Any, seen: Any
) -> None:
    """A number as the text that clean has for it; bytes as they are."""
    for namespace, kind, value in (("d", stored, secret), ("c", shown, seen)):
        columns = [("id", "int"), ("secret", kind)]
        write(lake, namespace, columns, [{"id": 1, "secret": value, ORIGINAL: []}])
    found = find_exposed(lake, contract(secret=ColumnRule(pii="hash"))).found
    assert found == {"secret": "shows 1 values as they are, and the rule is hash"}


def test_a_text_that_is_its_own_mask_is_no_leak(lake: Lake) -> None:
    people = [{**PEOPLE[0], "phone": "********56"}]
    assert found(lake, [masked(row) for row in people], people) == {}


def test_a_digest_that_the_source_itself_holds_is_not_taken_for_a_hash(lake: Lake) -> None:
    """It has the shape of a hash: only comparing it with deduped tells."""
    people = [{**PEOPLE[0], "mail": "0" * 64}]
    rows = [{**masked(people[0]), "mail": "0" * 64}]
    assert set(found(lake, rows, people)) == {"mail"}


def test_dropped_and_card_columns_are_not_to_be_there(lake: Lake) -> None:
    columns = [*COLUMNS, ("NAME", "string"), ("card", "string")]
    write(lake, "d", columns, PEOPLE)
    write(lake, "c", columns, [masked(row) for row in PEOPLE])
    assert find_exposed(lake, contract()).found == {
        "NAME": "is to be dropped (pii)",
        "card": "is never to be read (pci)",
    }


def test_a_new_column_that_is_held_out_is_not_to_be_there(lake: Lake) -> None:
    rows = [masked(row) for row in PEOPLE]
    rows[1][ORIGINAL] = [{"column": "n", "text": "x"}]
    write(lake, "d", COLUMNS, PEOPLE)
    write(lake, "c", COLUMNS, rows)
    assert find_exposed(lake, contract(), held=("N",)).found == {
        "n": "is to be dropped (pii)",
        ORIGINAL: "keeps originals of n",
    }


def test_originals_of_hidden_columns_are_seen(lake: Lake) -> None:
    rows = [masked(row) for row in PEOPLE]
    rows[1][ORIGINAL] = [{"column": "born", "text": "0000-00-00"}]
    assert found(lake, rows) == {ORIGINAL: "keeps originals of born"}


def make_view(lake: Lake, sql: str, names: list[str] | None = None) -> None:
    """As Spark writes one into a JDBC catalog; ``names``: of its columns, past the SQL."""
    catalog = lake.catalog
    assert isinstance(catalog, SqlCatalog)
    shown = [(name, "string") for name in names or view_columns(sql)]
    schema = current_schema(shown, False).model_dump(mode="json", by_alias=True)
    version = {
        "version-id": 1, "schema-id": 0, "timestamp-ms": 1, "default-namespace": ["c"],
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
    }  # fmt: skip
    metadata = {
        "view-uuid": str(uuid.uuid4()), "format-version": 1, "location": lake.warehouse,
        "schemas": [schema], "current-version-id": 1, "versions": [version],
        "version-log": [{"timestamp-ms": 1, "version-id": 1}],
    }  # fmt: skip
    path = Path(lake.warehouse.removeprefix("file://")) / "view.json"
    path.write_text(json.dumps(metadata))
    with catalog.engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
                " metadata_location, iceberg_type) VALUES ('lake', 'c', 'people', :at, 'VIEW')"
            ),
            {"at": f"file://{path}"},
        )


VIEW_RULES = {"phone": ColumnRule(pii="mask"), "born": ColumnRule(pii="null")}
GOOD = (
    f"SELECT `id` AS `id`, {mask_sql('`phone`')} AS `phone`, CAST(NULL AS date) AS `born`, "
    "`n` AS `n` FROM `lake`.`d`.`people`"
)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (GOOD, {}),
        (
            GOOD.replace(mask_sql("`phone`"), "`phone`"),
            {"phone": "is not made as the rule mask requires"},
        ),
        (
            GOOD.replace("CAST(NULL AS date)", "`born`"),
            {"born": "is not made as the rule null requires"},
        ),
        (GOOD.replace("`n` AS `n`", "`phone` AS `n`"), {"n": "is not deduped's column"}),
        (
            GOOD + " WHERE `id` > 1",
            {"the view": "does not show deduped's rows: it was not made by Mirrorlake"},
        ),
    ],
)
def test_a_view_is_judged_by_what_the_catalog_holds(
    lake: Lake, sql: str, expected: dict[str, str]
) -> None:
    write(lake, "d", COLUMNS, PEOPLE)
    make_view(lake, sql)
    assert find_exposed(lake, contract(**VIEW_RULES)).found == expected


def test_a_card_column_in_a_view_is_told_as_such_however_it_is_shown(lake: Lake) -> None:
    write(lake, "d", COLUMNS, PEOPLE)
    make_view(lake, GOOD.replace("`n` AS `n`", "upper(`n`) AS `n`"))
    rules = {**VIEW_RULES, "n": ColumnRule(pci="never")}
    assert find_exposed(lake, contract(**rules)).found == {"n": "is never to be read (pci)"}


def test_names_that_swap_two_columns_of_a_view_are_seen(lake: Lake) -> None:
    """`CREATE VIEW v (id, n, born, phone) AS …`: the SQL is ours, and n shows the phones' masks."""
    write(lake, "d", COLUMNS, PEOPLE)
    make_view(lake, GOOD, ["id", "n", "born", "phone"])
    found = find_exposed(lake, contract(**VIEW_RULES)).found
    assert found == {"the view": "gives its columns other names than its definition does"}


def test_originals_come_through_a_view_only_filtered(lake: Lake) -> None:
    write(lake, "d", COLUMNS, [{**PEOPLE[0], ORIGINAL: [{"column": "born", "text": "0000-00-00"}]}])
    with_originals = f", `{ORIGINAL}` AS `{ORIGINAL}` FROM"
    make_view(lake, GOOD.replace(" FROM", with_originals))
    shown = find_exposed(lake, contract(**VIEW_RULES)).found
    assert shown == {ORIGINAL: "keeps originals of born"}


def test_originals_that_a_view_filters_are_not_shown(lake: Lake) -> None:
    write(lake, "d", COLUMNS, [{**PEOPLE[0], ORIGINAL: [{"column": "born", "text": "0000-00-00"}]}])
    kept = f"filter(`{ORIGINAL}`, x -> x.column NOT IN ('born'))"
    make_view(lake, GOOD.replace(" FROM", f", {kept} AS `{ORIGINAL}` FROM"))
    assert find_exposed(lake, contract(**VIEW_RULES)).found == {}


def test_a_deduped_table_without_originals_shows_none(lake: Lake) -> None:
    ensure_current_table(lake, Identifier("d", "people"), current_schema(COLUMNS, False))
    make_view(lake, GOOD.replace(" FROM", f", `{ORIGINAL}` AS `{ORIGINAL}` FROM"))
    assert find_exposed(lake, contract(**VIEW_RULES)).found == {}


def test_card_data_is_looked_for_in_every_table_of_the_chain(lake: Lake, tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    write(lake, "d", COLUMNS, PEOPLE)
    assert stored_pci(lake, ledger, contract()) == {}, "nor is clean there yet"
    version = schema_version("people", [("id", "int"), ("Card", "text")])
    ledger.record_schema_version(contract().name, version)
    raw = Identifier("r", version.raw_table)
    ensure_current_table(lake, raw, current_schema([("Card", "string")], False))
    write(lake, "c", [*COLUMNS, ("CARD", "string")], [])
    assert stored_pci(lake, ledger, contract()) == {
        "Card": f"r.{version.raw_table}",
        "CARD": "c.people",
    }


def test_no_clean_is_an_error_and_no_verdict(lake: Lake) -> None:
    write(lake, "d", COLUMNS, PEOPLE)
    with pytest.raises(LakeError, match=r"clean table c\.people is not there"):
        find_exposed(lake, contract())
