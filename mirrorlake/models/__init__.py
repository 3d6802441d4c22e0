"""SQL models: a query in a file, and what it says of itself without being run.

What belongs here: reading declarations, types, nullability and lineage of a query, and which
partitions it reads. What doesn't: running it (`mirrorlake.operations`).
"""
