"""Apache Iceberg as the lake: catalog, tables, commits, branches, data files, the Spark session.

What belongs here: what speaks Iceberg, through PyIceberg or through Spark. What doesn't: which load
or contract a table serves.
"""
