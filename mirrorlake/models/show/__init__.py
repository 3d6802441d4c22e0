"""What is said of a model, or of a table made elsewhere, to somebody who asks.

What belongs here: answers. What doesn't: how they are printed (`cli`).
"""
