"""How checks are named that others refer to."""

BY_DAY = "_by_day"
"""What a check that says it of each day ends in, beside the one of the whole table: each has a
series of its own."""
EXACT = "exact_match"
"""The check that compares rows with MySQL."""
