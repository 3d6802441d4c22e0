"""The use cases: what the command line and Dagster call.

What belongs here: use cases, each built from the packages below. What doesn't: printing
(`mirrorlake.cli`), and anything of Dagster.
"""
