"""Loading: from MySQL to clean, one table or many.

What belongs here: whether a table is read, and the order of steps. What doesn't: one load
(`mirrorlake.load`).
"""
