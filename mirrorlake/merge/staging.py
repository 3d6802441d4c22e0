"""Staging branches: where a layer is written before it is shown. Readers see main alone.

What belongs here: their names. What doesn't: what is written there.
"""

from __future__ import annotations

import uuid

from mirrorlake.destinations.base import Destination, Identifier, as_sql_identifier

BRANCH = "mirror_fold_"
"""What the names of staging branches begin with."""


def new_branch() -> str:
    """A name that no other run gives a branch."""
    return f"{BRANCH}{uuid.uuid4().hex[:12]}"


def branch_sql(identifier: Identifier, branch: str) -> str:
    """A table's branch, as Spark takes it."""
    return f"{identifier.sql}.{as_sql_identifier('branch_' + branch)}"


def drop_stale(lake: Destination, identifier: Identifier) -> None:
    """Drop the branches that dead runs left; the caller holds the lease."""
    for name in lake.branches(identifier):
        if name.startswith(BRANCH):
            lake.drop_branch(identifier, name)
