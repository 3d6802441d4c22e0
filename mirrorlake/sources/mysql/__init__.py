"""Everything that speaks to MySQL or MariaDB: sessions, introspection, types, the reader.

What belongs here: statements, and what servers answer. What doesn't: contracts of single tables and
windows, which are `mirrorlake.table`'s.
"""
