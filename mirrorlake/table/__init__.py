"""One table: its contract resolved against its server, its windows, and what its rows mean.

What belongs here: decisions about a table, from the contract, the ledger and the server's answers.
What doesn't: moving rows.
"""
