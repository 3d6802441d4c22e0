"""Tests of models: fitted to the models, and run on Spark.

What belongs here: tests as a person writes them. What doesn't: checks of computed rows (`checks`).
"""
