"""The ledger's database: opened, migrated, copied.

What belongs here: what differs between servers. What doesn't: what is recorded.
"""
