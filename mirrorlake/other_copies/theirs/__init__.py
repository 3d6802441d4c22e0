"""Where the copy is: Parquet, DuckDB, Iceberg, Delta, Postgres, BigQuery; each is only read.

What belongs here: finding its tables and giving their rows to DuckDB. What doesn't: comparing them
(`mirrorlake.other_copies.compare`).
"""
