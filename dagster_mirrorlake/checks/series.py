"""How checks by day are named, beside those of the whole table."""

BY_DAY = "_by_day"
"""What a check that says it of each day ends in, beside the one of the whole table: each has a
series of its own."""
