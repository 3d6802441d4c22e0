"""The lake as our commits left it: heads, days, files; and who may write a table.

What belongs here: their rows. What doesn't: looking at the lake.
"""
