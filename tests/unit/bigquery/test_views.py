"""A view of the lake's in BigQuery's SQL."""

from __future__ import annotations

from mirrorlake.bigquery.api.views import as_bigquery
from mirrorlake.destinations.base import Identifier
from mirrorlake.merge.statements import clean_column, originals_without, view_sql
from mirrorlake.runtime.google.tables import BigQueryTable

SOURCE = BigQueryTable("my-project", "shop_shop", "odd name-1")


def translated(name: str, iceberg: str, rule: str | None, kind: str) -> str:
    """A column of a view, without what is around it."""
    column = clean_column(name, iceberg, rule)
    assert column is not None
    select = view_sql([(column[0], column[2])], Identifier("shop_shop", "odd name-1"))
    text = as_bigquery(select, SOURCE, {name: kind})
    head, tail = "SELECT ", f" AS `{name}` FROM `my-project.shop_shop.odd name-1`"
    assert text.startswith(head), text
    assert text.endswith(tail), text
    return text[len(head) : -len(tail)]


def test_a_column_is_itself() -> None:
    assert translated("select", "string", None, "STRING") == "`select`"


def test_a_null_has_the_type_of_the_table_there() -> None:
    assert translated("a", "decimal(38,20)", "null", "BIGNUMERIC") == "CAST(NULL AS BIGNUMERIC)"
    assert translated("a", "long", "null", "INTEGER") == "CAST(NULL AS INT64)"
    assert translated("a", "timestamp", "null", "DATETIME") == "CAST(NULL AS DATETIME)"
    assert translated("a", "timestamptz", "null", "TIMESTAMP") == "CAST(NULL AS TIMESTAMP)"
    assert translated("a", "double", "null", "FLOAT") == "CAST(NULL AS FLOAT64)"
    assert translated("a", "binary", "null", "BYTES") == "CAST(NULL AS BYTES)"
    assert translated("a", "date", "null", "DATE") == "CAST(NULL AS DATE)"


def test_a_mask_shows_the_last_two_characters() -> None:
    assert translated("a", "string", "mask", "STRING") == (
        "CASE WHEN `a` IS NULL THEN NULL ELSE CONCAT('********', "
        "CASE WHEN LENGTH(`a`) >= 6 THEN RIGHT(`a`, 2) ELSE '' END) END"
    )


def test_originals_of_ruled_columns_are_left_out() -> None:
    columns = [("_mirror_original", originals_without(["a", "it's"]))]
    text = as_bigquery(view_sql(columns, Identifier("n", "t")), SOURCE, {})
    kept = (
        "ARRAY(SELECT x FROM UNNEST(`_mirror_original`) AS x WHERE NOT x.column IN ('a', 'it\\'s'))"
    )
    assert text.startswith(f"SELECT CASE WHEN ARRAY_LENGTH({kept}) > 0 THEN {kept} END AS `_mirror")
