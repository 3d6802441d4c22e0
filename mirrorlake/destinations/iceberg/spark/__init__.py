"""Spark: its session, settings, errors, procedures and cost.

What belongs here: the one place that makes or attaches a session. What doesn't: queries.
"""
