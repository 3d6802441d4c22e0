"""Where rows come from.

What belongs here: a package for each kind of source; they don't know each other. What doesn't: any
table of the lake.
"""
