"""Tenants: many databases that hold the same table, kept as one.

What belongs here: their sync, their checks, what is due. What doesn't: rows
(`mirrorlake.load.tenants`).
"""
