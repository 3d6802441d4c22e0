"""What a session of Spark is given: functions, views, and the rows of a partition.

What belongs here: sessions. What doesn't: commits (`compute`).
"""
