"""What was found of models before: a model is bound again only where something changed.

What belongs here: entries and their files. What doesn't: finding it (`compile`).
"""
