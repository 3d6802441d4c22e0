"""Values of row images, a column of a batch at a time: bytes of the log → Arrow.

What belongs here: one module for each form that values have in the log. What doesn't: which
columns a table has (`table_map`), and where a row begins (`row_scanner`).
"""
