"""What is registered in a Spark session: functions, views, and the rows of a partition.

What belongs here: sessions. What doesn't: commits (`compute`).
"""
