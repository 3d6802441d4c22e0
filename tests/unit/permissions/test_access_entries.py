"""What brings a dataset's grants from any state to any other, and what is never taken away."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from mirrorlake.errors import BigQueryError
from mirrorlake.permissions.access_entries import (
    AccessChange,
    change_between,
    entry_of,
    grant_of,
    refusal_of,
)
from mirrorlake.permissions.grants import AUTHORISED, OWNER, Grant, covers
from tests.support.bigquery.grants import RUNNER, grants, owned, states


def applied(change: AccessChange, there: frozenset[Grant]) -> frozenset[Grant]:
    return (there - frozenset(change.removes)) | frozenset(change.adds)


@given(owned, states)
def test_one_change_reaches_the_other_state_and_a_second_has_nothing_to_do(
    there: frozenset[Grant], declared: frozenset[Grant]
) -> None:
    change = change_between(there, declared)
    after = applied(change, there)
    assert after == declared
    assert not change_between(after, declared)
    assert bool(change) == (there != declared)
    assert not set(change.adds) & there
    assert set(change.removes) <= there


@given(owned, states)
def test_the_last_owner_and_whoever_applies_it_are_never_removed(
    there: frozenset[Grant], declared: frozenset[Grant]
) -> None:
    refused = refusal_of(there, declared, RUNNER)
    after = there if refused else applied(change_between(there, declared), there)
    assert any(grant.role == OWNER for grant in after)
    mine = [grant.role for grant in after if grant.principal == RUNNER]
    for grant in there:
        if grant.principal == RUNNER:
            assert any(covers(role, grant.role) for role in mine)


@given(owned, owned)
def test_nothing_else_is_refused(there: frozenset[Grant], declared: frozenset[Grant]) -> None:
    """Whoever has no entry of their own loses none, and an owner is declared."""
    mine = frozenset(grant for grant in there if grant.principal == RUNNER)
    assert refusal_of(there - mine, declared, RUNNER) is None
    assert refusal_of(there, declared | mine, RUNNER) is None


@given(grants)
def test_bigquery_gives_a_grant_back_as_it_was_written(grant: Grant) -> None:
    assert grant_of(entry_of(grant)) == grant


@pytest.mark.parametrize(
    ("entry", "grant"),
    [
        (
            {"role": "READER", "userByEmail": "Ann@Example.com"},
            Grant("user:ann@example.com", "reader"),
        ),
        (
            {"role": "roles/bigquery.dataOwner", "userByEmail": "a@p.iam.gserviceaccount.com"},
            Grant("serviceAccount:a@p.iam.gserviceaccount.com", "owner"),
        ),
        ({"role": "WRITER", "iamMember": "group:G@x.de"}, Grant("group:g@x.de", "writer")),
        ({"role": "READER", "iamMember": "allUsers"}, Grant("special:allUsers", "reader")),
        (
            {"role": "OWNER", "iamMember": "deleted:user:a@x.de?uid=1"},
            Grant("deleted:user:a@x.de?uid=1", "owner"),
        ),
        ({"role": "roles/x.y", "domain": "X.de"}, Grant("domain:x.de", "roles/x.y")),
        (
            {
                "dataset": {
                    "dataset": {"projectId": "p", "datasetId": "d"},
                    "targetTypes": ["VIEWS"],
                }
            },
            Grant("dataset:p.d", AUTHORISED),
        ),
        (
            {
                "dataset": {
                    "dataset": {"projectId": "p", "datasetId": "d"},
                    "targetTypes": ["VIEWS", "ROUTINES"],
                }
            },
            Grant("dataset:p.d", "authorised ROUTINES VIEWS"),
        ),
    ],
)
def test_entries_of_others_have_one_spelling(entry: dict[str, Any], grant: Grant) -> None:
    assert grant_of(entry) == grant


@pytest.mark.parametrize(
    "entry",
    [
        {"role": "READER", "userByEmail": "a@x.de", "condition": {"expression": "true"}},
        {"role": "roles/bigquery.dataViewer_withcond_1a2b", "userByEmail": "a@x.de"},
        {"role": "READER", "somethingNew": "x"},
        {"userByEmail": "a@x.de"},
    ],
)
def test_an_entry_that_cannot_be_declared_is_never_removed_unseen(entry: dict[str, Any]) -> None:
    with pytest.raises(BigQueryError, match="it has an entry"):
        grant_of(entry)
