"""A database server on loopback that needs no installation: for `mirrorlake try`, the demo, tests.

What belongs here: bringing its files, making its data folder, starting it, and ending it with
whoever started it. What doesn't: what is in it.
"""
