"""The code blocks of the documents, and what reads a block of each kind.

What belongs here: finding the blocks, reading one as the program reads it that it is for, running a
page's blocks in a home of their own. What doesn't: a test.
"""
