"""Coverage: what is proved of a table, as of when, by its checks so far.

What belongs here: proofs from the ledger. What doesn't: checking.
"""
