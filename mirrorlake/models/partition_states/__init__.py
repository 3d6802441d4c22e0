"""Whether a partition is what its query would give now: states, versions, history.

What belongs here: what the ledger and the lake say of partitions. What doesn't: computing them
(`compute`).
"""
