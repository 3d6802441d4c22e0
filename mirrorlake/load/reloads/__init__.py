"""Reloads: days and keys that are read again, and what that replaces.

What belongs here: later observations of rows that were read. What doesn't: which are due.
"""
