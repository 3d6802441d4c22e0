"""Copies that other tools made of MySQL's tables, compared with MySQL.

What belongs here: reading such a copy, comparing it, and what is said of it. What doesn't: our own
mirror's proof (`mirrorlake.proof`).
"""

ADDS = {"check: others": {"copies": "mirrorlake.other_copies.cli:COPIES"}}
