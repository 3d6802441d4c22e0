"""Following a source's log without a pause.

What belongs here: the resident process, and how far it is behind. What doesn't: what a load, a fold
or a copy does (`mirrorlake.operations.loading`).
"""
