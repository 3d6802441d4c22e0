"""Upkeep: small files, expired versions, orphans, clones.

What belongs here: what changes files, and no row. What doesn't: repairs.
"""
