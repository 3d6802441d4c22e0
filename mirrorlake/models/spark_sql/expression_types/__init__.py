"""Expressions: type, nullability and origins.

What belongs here: what a node gives of what its parts give. What doesn't: what one function gives
(`functions`), and values (`constants`).
"""
