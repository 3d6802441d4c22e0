"""What is run side by side: each side is a process of its own that stays warm between its runs.

A side's program reads one JSON object a line (a `Job`), does it, and answers with one: its seconds
and its rows. So imports, sessions and the JVM's warming up are not counted, and the memory of a
side is that of its process and of all that it started.
"""
