"""The Iceberg catalog: which tables there are, and where each one's metadata is.

What belongs here: connecting to it, and its rows. What doesn't: what a table holds.
"""
