"""SQL models as use cases: compiled, shown, planned, and computed into the lake.

What belongs here: a project's state and runs. What doesn't: what a query means
(`mirrorlake.models`), and Dagster's assets.
"""
