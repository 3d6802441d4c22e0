"""Grants of every kind for Hypothesis, in the spelling that Mirrorlake has for them."""

from __future__ import annotations

from hypothesis import strategies as st

from mirrorlake.permissions.grants import AUTHORISED, OWNER, Grant

RUNNER = "serviceAccount:runner@p.iam.gserviceaccount.com"
PRINCIPALS = (
    RUNNER,
    "user:ann@example.com",
    "user:bob@example.com",
    "group:analysts@example.com",
    "group:platform@example.com",
    "serviceAccount:other@p.iam.gserviceaccount.com",
    "domain:example.com",
    "special:projectOwners",
    "special:projectReaders",
    "principalSet://iam.googleapis.com/locations/global/workforcePools/w/group/g",
)
ROLES = (
    *("reader", "writer", OWNER, "roles/bigquery.metadataViewer", "roles/bigquery.admin"),
    *("roles/bigquery.user", "projects/p/roles/auditor"),
)
OBJECTS = ("view:p.d__views.t", "routine:p.shared.f", "dataset:p.d__views", "view:x.com:q.a.b")

grants = st.one_of(
    st.builds(Grant, st.sampled_from(PRINCIPALS), st.sampled_from(ROLES)),
    st.builds(Grant, st.just(RUNNER), st.sampled_from(ROLES)),
    st.builds(Grant, st.sampled_from(["special:allUsers"]), st.just("reader")),
    st.builds(Grant, st.sampled_from(OBJECTS), st.just(AUTHORISED)),
)
states = st.frozensets(grants, max_size=8)
owned = st.builds(
    lambda state, owner: state | {Grant(owner, OWNER)}, states, st.sampled_from(PRINCIPALS)
)
