"""The exact check: is a mirrored table equal to its MySQL table, proved by reading both sides.

Nothing here reads, converts or folds as the engine does: a proof that shared code with what it
checks would share its mistakes. Sessions, introspection, the ledger and the catalog are shared.

What belongs here: reading both sides, comparing, and what may be said of it. What doesn't: changing
any table.
"""
