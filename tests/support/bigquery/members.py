"""Members of groups for Hypothesis, in the spelling that Mirrorlake has for them."""

from __future__ import annotations

from hypothesis import strategies as st

from mirrorlake.permissions.grants import Grant
from tests.support.bigquery.grants import RUNNER

GROUPS = ("a@example.com", "b@example.com", "c@example.com")
PEOPLE = (RUNNER, "user:ann@example.com", "user:bob@example.com", "user:cy@example.com")
ROLES = ("owner", "manager", "member")

_people = st.dictionaries(st.sampled_from(PEOPLE), st.sampled_from(ROLES), max_size=4)


def _owned(roles: dict[str, str], owner: str) -> dict[str, str]:
    return {**roles, owner: "owner"}


people = st.builds(_owned, _people, st.sampled_from(PEOPLE))
"""Persons and accounts of one group, an owner among them."""
inner = st.dictionaries(
    st.sampled_from([f"group:{one}" for one in GROUPS]), st.sampled_from(ROLES), max_size=2
)
"""Groups in one group, with their roles."""


def grants(roles: dict[str, str]) -> frozenset[Grant]:
    """Members as they are declared."""
    return frozenset(Grant(member, role) for member, role in roles.items())


@st.composite
def directories(draw: st.DrawFn) -> dict[str, dict[str, str]]:
    """Three groups, none of which contains itself: each has but those after it in some order."""
    order = draw(st.permutations(GROUPS))
    found: dict[str, dict[str, str]] = {}
    for index, group in enumerate(order):
        later = {f"group:{one}" for one in order[index + 1 :]}
        nested = {member: role for member, role in draw(inner).items() if member in later}
        found[group] = {**draw(people), **nested}
    return found
