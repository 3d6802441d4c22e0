"""Scopes: which partitions a model has, and the values that each gives to its query.

What belongs here: values. What doesn't: what a query reads for them (`compile`).
"""
