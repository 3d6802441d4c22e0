"""A table's columns: which the mirror takes up, which clean shows, under which names.

What belongs here: columns that came, went, were renamed or held out. What doesn't: the plan of the
whole table (`mirrorlake.table.resolve`), and types (`mirrorlake.sources.mysql.types`).
"""
