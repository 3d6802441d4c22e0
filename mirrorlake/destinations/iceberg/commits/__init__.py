"""Commits: versions of tables, made, published and taken away.

What belongs here: snapshots and branches, and the files of new ones. What doesn't: reading.
"""
