"""What `mirrorlake show` says of a model, or of a table made elsewhere.

What belongs here: answers. What doesn't: how they are printed (`cli`).
"""
