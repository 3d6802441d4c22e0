"""Tables and views of the lake: their schemas, and how they come to be.

What belongs here: their definitions, and their files' integrity. What doesn't: rows.
"""
