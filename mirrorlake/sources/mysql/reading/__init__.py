"""Reading: a SELECT as Arrow batches, at a pace that the server can bear.

What belongs here: the reader, the processes that help it, its limits. What doesn't: which rows are
read.
"""
