"""Which rows a query can depend on: the sets of values that its conditions leave.

What belongs here: conditions. What doesn't: partitions (`compile`).
"""
