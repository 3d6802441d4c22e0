"""DDL: what statements say of tables, before they run.

What belongs here: parsing, and tables as they would be. What doesn't: running any.
"""
