"""Copies: full copies that write what changed, and rows that a first load carries over.

What belongs here: what of a copy is written. What doesn't: when one is made.
"""
