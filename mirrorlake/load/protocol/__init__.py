"""The commit protocol: one load from its window to success, or settled after a crash.

What belongs here: the order of steps. What doesn't: rows (`chunks`, `copies`, `reloads`).
"""
