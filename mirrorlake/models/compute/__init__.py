"""Computing partitions of models into the lake.

What belongs here: runs. What doesn't: which partitions are due (`partition_states`).
"""
