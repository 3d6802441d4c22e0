"""Introspection: what a server says of its tables.

What belongs here: columns, keys, indexes, a table's identity. What doesn't: rows.
"""
