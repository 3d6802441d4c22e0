"""Canonical forms of cells, and digests of rows.

What belongs here: when two cells are equal. What doesn't: reading any.
"""
