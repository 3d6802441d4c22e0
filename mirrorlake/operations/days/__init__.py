"""The days of a table: loaded, owed, invalid, and reported.

What belongs here: what ledger and lake say of days. What doesn't: reading them from MySQL.
"""
