"""Storage: files and folders, here or in a bucket.

What belongs here: opening, flushing, listing. What doesn't: what the files say.
"""
