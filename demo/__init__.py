"""The demo: real data, a live writer, sabotage, and the oracle.

What belongs here: what `make demo` and the tests need to have something to mirror, and to check it.
What doesn't: anything that a mirror needs in production; none of it is in the wheel.
"""
