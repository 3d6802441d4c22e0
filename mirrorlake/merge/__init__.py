"""The fold: raw row versions → one current row per key, in deduped and in clean.

What belongs here: which row of a key is current, the statements that write it, and their bounds.
What doesn't: reading MySQL, and the views that show a layer (`mirrorlake.serving`).
"""
