"""Maintenance of models' lake tables, and what models left behind.

What belongs here: tables of models. What doesn't: what is done to a lake table
(`mirrorlake.operations.upkeep.maintain`).
"""
