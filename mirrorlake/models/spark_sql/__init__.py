"""Spark's SQL without Spark: types, nullability and origins, and a query bound to its tables.

What belongs here: one query and its expressions. What doesn't: which rows it reads (`row_filters`),
and files (`files`).
"""
