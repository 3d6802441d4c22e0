"""Columns by themselves: schema versions, masking, what personal data looks like. Pure.

What belongs here: rules over names, types and texts. What doesn't: anything that opens a file, a
connection or a session.
"""
