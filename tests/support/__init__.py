"""Servers that only tests need: MySQL 8, Postgres, Google Cloud Storage.

What belongs here: what several kinds of test start or ask. What doesn't: fixtures of one kind.
"""
