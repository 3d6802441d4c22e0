"""Reading: a table's rows, and what two versions differ in, without Spark.

What belongs here: PyIceberg's, DuckDB's and Trino's answers. What doesn't: writing.
"""
