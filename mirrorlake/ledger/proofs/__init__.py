"""Proofs, repairs, and what is declared invalid or unproved.

What belongs here: their rows. What doesn't: checking.
"""
