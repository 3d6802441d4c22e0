"""Raw's data files: what their loads recorded of them, and the proof of it.

What belongs here: that record. What doesn't: writing the files.
"""
