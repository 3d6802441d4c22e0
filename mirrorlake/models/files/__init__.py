"""The files beside a contract: models, tests, expectations, and tables made elsewhere.

What belongs here: files as they are written. What doesn't: what a query means (`spark_sql`).
"""
