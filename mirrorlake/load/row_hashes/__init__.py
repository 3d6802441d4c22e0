"""Hashes of rows: receipts' digests, fingerprints, and what a copy knows already.

What belongs here: hashing and looking up. What doesn't: reading or proving.
"""
