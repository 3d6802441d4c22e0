"""Rows of raw as SQL: in the columns of another version, and which of a key's is the current one.

What belongs here: expressions and SELECTs over raw tables. What doesn't: layers and their MERGE
(`mirrorlake.merge.statements`), and running anything.
"""
