"""Planning: what is to be done, in which order, and what that takes.

What belongs here: plans, forecasts, backfills by them. What doesn't: one table's sync (`loading`).
"""
