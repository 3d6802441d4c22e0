"""Requests to BigQuery, and its answers.

What belongs here: which type of BigQuery a lake's column has, statements, and Google's clients:
jobs, the bucket. What doesn't: which rows are loaded, and when (`mirrorlake.bigquery.loads`).

BigQuery has no branches and no versions, so it is no `mirrorlake.destinations.base.Destination`: a
table is replaced, or merged into, by one job, which is done or not done. Google's libraries are
imported when a client is opened, not before.
"""
