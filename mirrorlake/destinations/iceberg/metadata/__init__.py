"""Metadata: what manifests and footers say of rows, without reading them.

What belongs here: counts, bounds, conditions on files. What doesn't: the catalog.
"""
