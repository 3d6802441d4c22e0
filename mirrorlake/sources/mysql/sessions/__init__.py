"""Sessions with a server: opened, set, and watched for silence.

What belongs here: connections. What doesn't: statements about tables.
"""
