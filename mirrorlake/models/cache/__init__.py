"""Results of compiling, kept: a model is compiled again only where something changed.

What belongs here: entries and their files. What doesn't: finding it (`compile`).
"""
