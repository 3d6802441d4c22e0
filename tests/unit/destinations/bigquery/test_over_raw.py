"""Spark's SQL of views over raw in BigQuery's: the same values, or an error."""

from __future__ import annotations

import itertools

import pytest

from mirrorlake.destinations.bigquery.over_raw import in_parts, over_tables, union_of


@pytest.mark.parametrize(
    ("spark", "bigquery"),
    [
        # A cast that fails is an error there, too: SAFE_CAST would give NULL.
        ("CAST(`a` AS bigint) AS `a`", "CAST(`a` AS INT64) AS `a`"),
        ("CAST(`a` AS decimal(38,9)) AS `a`", "CAST(`a` AS NUMERIC) AS `a`"),
        ("CAST(`a` AS decimal(38,20)) AS `a`", "CAST(`a` AS BIGNUMERIC) AS `a`"),
        ("CAST(NULL AS binary) AS `a`", "CAST(NULL AS BYTES) AS `a`"),
        ("CAST(`a` AS timestamp_ntz) AS `a`", "CAST(`a` AS DATETIME) AS `a`"),
        (
            "CAST(CONCAT(CAST(`a` AS STRING), 'Z') AS timestamp_ltz) AS `a`",
            "CAST(CONCAT(CAST(`a` AS STRING), 'Z') AS TIMESTAMP) AS `a`",
        ),
        # An array keeps its order, whatever filters it.
        (
            "filter(o, x -> x.column IN ('a')) AS o",
            "ARRAY(SELECT x FROM UNNEST(o) AS x WITH OFFSET AS `at` WHERE x.column IN ('a')"
            " ORDER BY `at`) AS o",
        ),
        (
            "array_sort(transform(o, x -> named_struct('column', 'b', 'text', x.text))) AS o",
            "ARRAY(SELECT x FROM UNNEST(ARRAY(SELECT STRUCT('b' AS column, x.text AS text)"
            " FROM UNNEST(o) AS x WITH OFFSET AS `at` ORDER BY `at`)) AS x"
            " ORDER BY x.column, x.text) AS o",
        ),
    ],
)
def test_each_conversion_is_the_same_one(spark: str, bigquery: str) -> None:
    found = over_tables(f"SELECT {spark} FROM `lake`.`s__raw`.`t_v_1`", "p")
    assert found == f"SELECT {bigquery} FROM `p.s__raw.t_v_1`"


def test_the_newest_row_is_chosen_by_the_same_clause() -> None:
    found = over_tables(
        "SELECT `a` FROM (SELECT *, d AS g FROM `lake`.`s`.`t` WHERE s >= 3) WHERE TRUE"
        " QUALIFY row_number() OVER (PARTITION BY `a` ORDER BY s DESC) = 1 AND NOT g",
        "p",
    )
    assert found.endswith(
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY `a` ORDER BY s DESC) = 1 AND NOT g"
    )


@pytest.mark.parametrize("most", [1, 20, 35, 36, 37, 60, 250_000])
def test_no_part_is_longer_than_a_view_may_be_and_none_is_lost(most: int) -> None:
    selects = [f"SELECT {number} AS a" for number in range(9)]
    parts = [*in_parts(selects, most)]
    assert [one for part in parts for one in part] == selects
    assert all(len(part) == 1 or len(union_of(part)) <= most for part in parts)
    fewer = [len(union_of([*one, other[0]])) for one, other in itertools.pairwise(parts)]
    assert all(length > most for length in fewer)
