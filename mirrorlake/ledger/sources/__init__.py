"""Sources as they were last seen: stamps, columns, holds.

What belongs here: their rows. What doesn't: looking at a source.
"""
