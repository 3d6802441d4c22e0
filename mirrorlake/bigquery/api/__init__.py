"""BigQuery as a second home of tables that are in the lake.

What belongs here: which type a lake's column has there, statements, and Google's clients: jobs, the
bucket, their errors in our words. What doesn't: which rows are loaded, and when, which is
`mirrorlake.bigquery.loads`'s.

It has no branches and no versions, so it is no `mirrorlake.destinations.base.Destination`: a table
there is replaced, or merged into, by one job, which is done or not done. Google's libraries are
imported when a client is opened, not before.
"""
