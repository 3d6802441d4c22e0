"""What brings a table's row access policies from any state to any other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.bigquery.names import BigQueryTable
from mirrorlake.destinations.bigquery.row_filters import (
    ALL_ROWS,
    canonical_filter,
    columns_of,
    refusal_of_filter,
)
from mirrorlake.destinations.bigquery.row_policies import (
    RowPolicy,
    create_sql,
    grants_of,
    policy_changes,
)
from tests.support.bigquery.policies import ALL, policies
from tests.support.bigquery.table_policies import Tables

TABLE = BigQueryTable("p", "d", "t")


@given(policies, st.one_of(policies, st.just([])))
def test_statements_bring_any_policies_to_any_others(
    there: list[RowPolicy], declared: list[RowPolicy]
) -> None:
    server = Tables()
    server.put("d.t", {one.name: (one.where, sorted(one.to)) for one in there})
    changes = policy_changes(TABLE, there, declared)
    grants = grants_of(there)
    for change in changes:
        assert server.run(change.statements[0]) is None
        assert change.before <= grants
        grants = grants - change.before | change.after
    wanted = {one.name: (one.where, sorted(one.to)) for one in declared}
    assert server.policies["d.t"] == wanted
    assert grants == grants_of(declared)
    assert policy_changes(TABLE, declared, declared) == []
    if there and declared:
        assert all(ALL_ROWS in {where for where, _ in seen.values()} for seen in server.seen)


def test_whoever_sees_all_rows_is_first_and_the_last_policy_goes_with_all() -> None:
    europe = RowPolicy("eu", "region = 'EU'", frozenset({"group:eu@x.de"}))
    made = [
        change.statements[0].split("`")[1] for change in policy_changes(TABLE, [], [europe, ALL])
    ]
    assert made == ["everything", "eu"]
    [gone] = policy_changes(TABLE, [europe, ALL], [])
    assert gone.statements[0] == "DROP ALL ROW ACCESS POLICIES ON `p.d.t`"
    sql = [
        change.statements[0].split(" ON ")[0]
        for change in policy_changes(TABLE, [europe, ALL], [ALL])
    ]
    assert sql == ["DROP ROW ACCESS POLICY IF EXISTS `eu`"]


def test_a_policy_in_sql() -> None:
    to = frozenset({"special:allAuthenticatedUsers", "group:a@x.de", 'principalSet://x/"y'})
    assert create_sql(TABLE, RowPolicy("eu", "region = 'EU'", to)) == (
        "CREATE OR REPLACE ROW ACCESS POLICY `eu` ON `p.d.t`\n"
        'GRANT TO ("group:a@x.de", "principalSet://x/\\"y", "allAuthenticatedUsers")\n'
        "FILTER USING (region = 'EU'\n)"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("region = ", "can't be read as a condition at '=' (line 1, column 8 of it)"),
        ("TRUE) ; DROP TABLE x", "can't be read as a condition at ')' (line 1, column 5 of it)"),
        ("region = 'EU", "can't be read as a condition"),
        ("SELECT 1", "is no condition"),
        ("TRUE; TRUE", "is no condition"),
        ("-- nothing", "is no condition"),
        ("DROP TABLE x", "is no condition"),
        ("'EU'", "says neither true nor false"),
    ],
)
def test_a_text_that_is_no_condition_is_refused(text: str, words: str) -> None:
    assert words in str(refusal_of_filter(text))


def test_columns_are_those_of_the_table_alone() -> None:
    text = "a.b = 1 AND C IN (SELECT d FROM `p.d.u` WHERE e = SESSION_USER()) OR `f g` IS NULL"
    assert refusal_of_filter(text) is None
    assert sorted(columns_of(text)) == ["C", "a", "f g"]
    assert canonical_filter("a='x'  AND\nb IN( 1 ,2 )/* y */") == "a = 'x' AND b IN (1, 2)"
    assert canonical_filter("a = 'x  -- y'") != canonical_filter("a = 'x -- y'")
