"""Folders of files: on a disk, in ``gs://`` or ``s3://``, and the Parquet tables in them.

What belongs here: the stores, what is listed and read. What doesn't: snapshots that land there
(`mirrorlake.landing`).
"""
