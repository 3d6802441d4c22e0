"""Tables that are made elsewhere: where they are, and what is there.

What belongs here: looking at them. What doesn't: their files (`files.external_table`).
"""
