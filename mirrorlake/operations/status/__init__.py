"""Status: what `mirrorlake status`, `doctor` and `history` show.

What belongs here: looking. What doesn't: changing anything.
"""
