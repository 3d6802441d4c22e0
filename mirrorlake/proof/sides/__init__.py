"""The two sides: MySQL's, and the lake's by Spark or without it.

What belongs here: statements, and their answers. What doesn't: verdicts.
"""
