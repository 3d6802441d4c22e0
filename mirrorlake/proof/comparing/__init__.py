"""Comparing: one check of one table, from request to verdict and evidence.

What belongs here: both sides held together. What doesn't: how a side is read (`sides`).
"""
