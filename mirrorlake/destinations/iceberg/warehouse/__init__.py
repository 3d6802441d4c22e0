"""The warehouse: which lake this is, and where all of its files are.

What belongs here: the lake as a whole. What doesn't: single tables.
"""
