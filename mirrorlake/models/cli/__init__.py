"""The commands of models.

What belongs here: options, and what is printed. What doesn't: finding it out.
"""
