"""Chunks: how a load is cut, and one chunk from its rows to Parquet files.

What belongs here: what runs on a Spark worker too. What doesn't: committing.
"""
