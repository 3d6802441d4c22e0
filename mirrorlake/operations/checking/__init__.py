"""Checking: raw, clean and counts; and every engine's answer compared.

What belongs here: verdicts on layers. What doesn't: the check against MySQL (`mirrorlake.proof`).
"""
