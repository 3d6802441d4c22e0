"""Changes: what a server shows of writes: the last one, open ones, a replica's lag.

What belongs here: looks that read no row. What doesn't: the binary log.
"""
