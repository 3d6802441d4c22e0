"""Tables of the lake, loaded into BigQuery.

What belongs here: which rows a load brings, its files, its jobs, and whether BigQuery has what
the lake has. What doesn't: Google's clients and BigQuery's types and SQL, which are
`mirrorlake.bigquery.api`'s.
"""
