"""The use cases: what the command line and Dagster call.

What belongs here: a module for each, which puts the packages below together. What doesn't: printing
(`mirrorlake.cli`), and anything of Dagster.
"""
