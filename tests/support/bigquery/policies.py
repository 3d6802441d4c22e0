"""Row access policies for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from mirrorlake.destinations.bigquery.row_filters import ALL_ROWS
from mirrorlake.destinations.bigquery.row_policies import RowPolicy

ALL = RowPolicy("everything", ALL_ROWS, frozenset({"group:platform@example.com"}))
_GRANTEES = ("group:a@example.com", "serviceAccount:m@p.iam.gserviceaccount.com", "domain:x.de")
_WHERE = ("region = 'EU'", "region = 'US'", "n IS NOT NULL", ALL_ROWS)
_policy = st.builds(
    RowPolicy,
    st.sampled_from(("eu", "us", "some", "most")),
    st.sampled_from(_WHERE),
    st.frozensets(st.sampled_from(_GRANTEES), min_size=1),
)
policies = st.builds(
    lambda found, name: [RowPolicy(name, ALL.where, ALL.to), *found],
    st.lists(_policy, max_size=3, unique_by=lambda one: one.name),
    st.sampled_from(("everything", "everybody")),
)
"""A table's policies, one of which shows all rows."""
