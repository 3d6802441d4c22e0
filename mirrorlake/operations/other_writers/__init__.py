"""Lake tables that somebody else wrote to, and what follows.

What belongs here: finding them, and our version back. What doesn't: layers made again
(`repairing`).
"""
