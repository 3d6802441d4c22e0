"""Pages that are handed on: one HTML file that needs nothing else, asks no network and runs nothing
but what it came with.

What belongs here: the frame of such a page, how text is made safe in it, how a file is replaced.
What doesn't: what a page says; that is its template, beside who writes it.
"""
