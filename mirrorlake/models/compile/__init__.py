"""Compiling the models of a folder together: columns, partitions, and what each reads.

What belongs here: what is known without a look at computed rows. What doesn't: states of partitions
(`partition_states`).
"""
