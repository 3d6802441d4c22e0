"""Landed files: complete copies of tables that arrive as files, found, read exactly, written down.

What belongs here: the layout, which snapshots are new and complete, records made typed rows, and
the same layout written from MySQL. What doesn't: stores of files (`mirrorlake.sources.files`), and
how a snapshot becomes part of a table (`mirrorlake.landing.fold`).

Files here are only read, and never copied: a Spark DataFrame reads them where they landed.
"""
