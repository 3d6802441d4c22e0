"""The binary log of MySQL and MariaDB: every change in order, decoded into Arrow.

What belongs here: bytes of the log and what they mean, how a server is made to send them, and
whether it may. What doesn't: contracts, the lake, and what becomes of a change, which are layers
above.

Pure but for `transport`, `charsets` and `requirements`, which speak to a server.
"""
