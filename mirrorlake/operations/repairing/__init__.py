"""Repairing: rows read again, layers made again, ledger and catalog restored.

What belongs here: what sets right what a check or a crash left. What doesn't: looking for it.
"""
