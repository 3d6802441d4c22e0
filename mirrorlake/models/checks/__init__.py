"""Expectations, and checks of tables made elsewhere, as they are run.

What belongs here: verdicts. What doesn't: what is expected (`files.expectations`).
"""
