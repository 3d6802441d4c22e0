"""Ranges: the groups of keys and days in which rows are compared.

What belongs here: cutting a table the same way on both sides. What doesn't: reading it.
"""
