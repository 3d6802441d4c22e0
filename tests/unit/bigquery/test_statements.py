"""The statements that change rows in BigQuery, and those that look at them; names of jobs."""

from __future__ import annotations

import re

import pytest

from mirrorlake.bigquery.api.names import bigquery_table, publication_stem, staging_of
from mirrorlake.bigquery.api.statements import (
    digest_sql,
    merge_sql,
    parts_sql,
    replace_sql,
)
from mirrorlake.bigquery.api.types import FieldJson
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SchemaError


def test_changes_are_merged_by_the_whole_key() -> None:
    assert merge_sql("p.d.t", "p.d.s", ["a", "b", "c"], ["a", "b"]) == (
        "MERGE `p.d.t` T USING `p.d.s` S ON T.`a` = S.`a` AND T.`b` = S.`b`\n"
        "WHEN MATCHED AND S.`_mirror_gone` THEN DELETE\n"
        "WHEN MATCHED THEN UPDATE SET `c` = S.`c`\n"
        "WHEN NOT MATCHED AND NOT S.`_mirror_gone` THEN"
        " INSERT (`a`, `b`, `c`) VALUES (S.`a`, S.`b`, S.`c`)"
    )


def test_a_table_that_is_all_key_has_nothing_to_update() -> None:
    assert "UPDATE" not in merge_sql("p.d.t", "p.d.s", ["a"], ["a"])


def test_each_column_is_in_the_digest() -> None:
    kinds = ("INTEGER", "NUMERIC", "FLOAT", "STRING", "BYTES", "DATE", "DATETIME", "TIMESTAMP")
    fields = [FieldJson(name=f"c{kind}", type=kind, mode="NULLABLE") for kind in kinds]
    sql = digest_sql("p.d.t", fields)
    assert all(sql.count(f"`{field['name']}`") >= 2 for field in fields)
    assert sql.startswith("SELECT COUNT(*) AS found, SUM(CAST(CONCAT('0x', SUBSTR(h, 1, 8))")


def test_ids_of_jobs_are_of_one_version_of_one_table() -> None:
    tables = [bigquery_table("p", Identifier(n, t)) for n, t in (("a_b", "c"), ("a", "b_c"))]
    stems = {publication_stem(table, version) for table in tables for version in (1, 12)}
    assert len(stems) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,180}", stem) for stem in stems)
    staging = staging_of(tables[0], f"{publication_stem(tables[0], 12)}_3-0a1b2c3d")
    assert str(staging) == "p.a_b.c__stage_12_3-0a1b2c3d"


def test_a_table_that_it_cannot_have_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"BigQuery has no table called 'a\$b'"):
        bigquery_table("p", Identifier("n", "a$b"))


def test_partitions_are_replaced_by_one_statement() -> None:
    assert replace_sql("p.d.t", "p.d.s", ["a", "b"], "T.`b` IN (1)") == (
        "MERGE `p.d.t` T USING `p.d.s` S ON FALSE\n"
        "WHEN NOT MATCHED BY SOURCE AND (T.`b` IN (1)) THEN DELETE\n"
        "WHEN NOT MATCHED THEN INSERT (`a`, `b`) VALUES (S.`a`, S.`b`)"
    )


def test_partitions_are_named_by_literals_of_their_types() -> None:
    day, shop = (
        FieldJson(name=name, type=kind, mode="NULLABLE")
        for name, kind in (("day", "DATE"), ("shop", "STRING"))
    )
    assert parts_sql([day], [("2026-01-02",), (None,)]) == (
        "T.`day` IN (DATE '2026-01-02') OR T.`day` IS NULL"
    )
    grid = [(d, s) for d in ("2026-01-02", "2026-01-03") for s in ("a'b", "c\\d\n")]
    assert parts_sql([day, shop], grid) == (
        "(T.`day` IN (DATE '2026-01-02', DATE '2026-01-03')) AND"
        " (T.`shop` IN ('a\\'b', 'c\\\\d\\n'))"
    )
    apart = parts_sql([day, shop], [("2026-01-02", None), ("2026-01-03", "a")])
    assert apart == (
        "(T.`day` IN (DATE '2026-01-02')) AND (T.`shop` IS NULL) OR"
        " (T.`day` IN (DATE '2026-01-03')) AND (T.`shop` IN ('a'))"
    )
