"""Loads: one window of one table, from MySQL into its raw table, by the commit protocol.

What belongs here: planning chunks, reading and converting them, committing, verifying, resuming and
settling a load. What doesn't: which window is due (`mirrorlake.table`), and deduped and clean
(`mirrorlake.merge`).
"""
