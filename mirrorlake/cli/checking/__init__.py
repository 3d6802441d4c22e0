"""The commands that compare a mirror with MySQL, show proofs, and repair.

What belongs here: their options, and what they print. What doesn't: what they share with others
(`mirrorlake.cli.reports`), and the work itself (`mirrorlake.operations`).
"""
