"""MySQL's types and collations: what is kept of each, and when two values are equal.

What belongs here: the one registry of types. What doesn't: canonical forms (`mirrorlake.proof`).
"""
