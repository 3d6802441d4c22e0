"""Following a log: its changes as a load's rows, and their commit.

What belongs here: what raw gets of them. What doesn't: reading the log.
"""
