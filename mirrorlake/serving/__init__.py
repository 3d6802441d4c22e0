"""What readers see: the views over raw and clean, and whether they hide what they must.

What belongs here: views, clean tables' definitions, and the audits of what is shown. What doesn't:
the rows of clean tables, which `mirrorlake.merge` writes.
"""
