"""Reports: few queries that answer for many tables.

What belongs here: reading. What doesn't: writing.
"""
