"""Schema changes: what a table's columns were, are, and would be.

What belongs here: reading that out of ledger, lake and contracts. What doesn't: loading by it.
"""
