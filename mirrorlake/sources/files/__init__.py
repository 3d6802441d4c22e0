"""Landing: complete copies of tables that arrive as files, found, read exactly and written down.

What belongs here: the layout, the store (a folder, ``gs://``, ``s3://``), which snapshots are new
and complete, records made typed rows, and the same layout written from MySQL. What doesn't: how a
snapshot becomes part of a table (`mirrorlake.merge.snapshot`).

Files here are only read, and never copied: a Spark DataFrame reads them where they landed.
"""
