"""Following a log: where a server's log stands, and which of its statements move rows.

What belongs here: what is asked of a server. What doesn't: events (`binlog`).
"""
