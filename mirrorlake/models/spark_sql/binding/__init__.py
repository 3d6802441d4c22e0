"""A query bound to its tables: sources, names, stars, groups and windows.

What belongs here: what a query gives, and which names it may say. What doesn't: the types of its
expressions (`expression_types`), and what others read of a bound query (`bound_query`).
"""
