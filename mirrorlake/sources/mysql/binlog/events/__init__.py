"""Events of the log, each with what its bytes mean.

What belongs here: one event at a time, as the servers' protocol describes it. What doesn't: values
of rows (`mirrorlake.sources.mysql.binlog.values`), and what several events are together.
"""
