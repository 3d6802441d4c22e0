"""One reading of a source's binary log, for the tables that follow it.

What belongs here: what becomes of changes and statements, table by table. What doesn't: which
tables follow, and from where (`mirrorlake.operations.loading.follow_log`).
"""
