"""How checks, and a step of theirs, are named where others refer to them."""

import dagster as dg

from dagster_mirrorlake.names import step_of

BY_DAY = "_by_day"
"""What a check that says it of each day ends in, beside the one of the whole table: each has a
series of its own."""
EXACT = "exact_match"
"""The check that compares rows with MySQL."""
UNIQUE = "unique_key"
"""The check that no two rows share a key."""


def exact_step(key: dg.AssetKey) -> str:
    """The step that compares an asset's rows with MySQL."""
    return f"{step_of(key)}__exact"
