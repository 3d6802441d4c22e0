"""What BigQuery has of a model, and what it can't have.

What belongs here: names and refusals. What doesn't: loads (`mirrorlake.operations.bigquery`).
"""
