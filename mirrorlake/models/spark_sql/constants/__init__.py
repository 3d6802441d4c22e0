"""Expressions over constants, evaluated without Spark.

What belongs here: values, and days that move with a scope. What doesn't: types and columns
(`expression_types`), and what values a column may have (`mirrorlake.models.row_filters`).
"""
