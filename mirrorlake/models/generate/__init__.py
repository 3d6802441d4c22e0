"""First models over mirrored tables.

What belongs here: texts and files that are written once. What doesn't: models that are there
(`compile`).
"""
