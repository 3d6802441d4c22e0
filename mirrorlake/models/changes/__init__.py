"""What changed since models were run, and what a change of the mirror means to them.

What belongs here: comparisons. What doesn't: what a mirrored table will have
(`mirrorlake.operations.schema_changes.altered_tables`).
"""
