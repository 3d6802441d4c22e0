"""How a column of MySQL's is compared with one of another tool's: when two values are equal, and
what became of a value where they are not.

What belongs here: one family of MySQL's types a module, as DuckDB's SQL. What doesn't: which rows
and columns belong together (`mirrorlake.other_copies.compare`).
"""
