"""What brings a group's members from any state to any other, and what is never taken away."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from mirrorlake.errors import BigQueryError
from mirrorlake.permissions.declared_groups import RANKS
from mirrorlake.permissions.grants import Grant
from mirrorlake.permissions.group_changes import (
    Membership,
    changes_between,
    lockout_of,
)
from mirrorlake.permissions.group_directory import membership_of
from tests.support.bigquery.grants import RUNNER
from tests.support.bigquery.members import grants, people


def there(roles: dict[str, str]) -> list[Membership]:
    return [Membership(m, m, frozenset({"MEMBER", r.upper()})) for m, r in roles.items()]


@given(people, people)
def test_after_all_changes_the_members_are_those_declared(
    before: dict[str, str], after: dict[str, str]
) -> None:
    now = dict(before)
    for change in changes_between(there(before), grants(after)):
        if change.role is None:
            del now[change.principal]
        else:
            now[change.principal] = change.role
        assert "owner" in now.values(), "at every moment somebody owns it"
    assert now == after
    assert changes_between(there(after), grants(after)) == ()


@given(people, people)
def test_whoever_applies_it_keeps_what_it_may_or_nothing_is_done(
    before: dict[str, str], after: dict[str, str]
) -> None:
    refused = lockout_of(there(before), grants(after), RUNNER)
    kept = RANKS[after[RUNNER]] if RUNNER in after else 0
    lost = RUNNER in before and kept < RANKS[before[RUNNER]]
    assert (refused is not None) == lost
    if refused is not None:
        assert (
            refused == f"applying this would take {before[RUNNER]} from {RUNNER}, which applies it"
        )


def google(**more: Any) -> dict[str, Any]:
    found = {"name": "groups/g/memberships/m", "preferredMemberKey": {"id": "Ann@x.de"}}
    return {**found, "roles": [{"name": "MEMBER"}], "type": "USER", **more}


def test_the_highest_role_is_the_members_role() -> None:
    roles = [{"name": "MEMBER"}, {"name": "OWNER"}, {"name": "MANAGER"}]
    assert membership_of(google(roles=roles)).grant == Grant("user:ann@x.de", "owner")
    key = {"id": "m@p.iam.gserviceaccount.com"}
    found = membership_of(google(preferredMemberKey=key, type="SERVICE_ACCOUNT"))
    assert found.grant == Grant("serviceAccount:m@p.iam.gserviceaccount.com", "member")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"type": "CHROME_OS_DEVICE"}, "its member ann@x.de is a CHROME_OS_DEVICE"),
        ({"type": "OTHER"}, "is a OTHER"),
        ({"preferredMemberKey": {"id": "1", "namespace": "identitysources/2"}}, "its member 1 is"),
        ({"roles": [{"name": "BOSS"}]}, "has the roles BOSS"),
        ({"roles": []}, "has the roles of nobody"),
        (
            {"roles": [{"name": "MEMBER", "expiryDetail": {"expireTime": "2027-01-01T00:00:00Z"}}]},
            "is there until a day",
        ),
    ],
)
def test_a_member_that_cannot_be_declared_is_never_removed_unseen(
    more: dict[str, Any], words: str
) -> None:
    with pytest.raises(BigQueryError, match=f"{words}.*, which can't be declared"):
        membership_of(google(**more))
