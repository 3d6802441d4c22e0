"""Loads and folds: what was requested, what became of it, what was settled.

What belongs here: their rows. What doesn't: carrying them out.
"""
