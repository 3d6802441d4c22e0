"""The names of Mirrorlake's own columns, beside those of the source."""

from __future__ import annotations

LOAD = "_mirror_load"
SEQ = "_mirror_seq"
EVENT = "_mirror_event"
"""The number of a row version among those of its load, where a load may have several of one key;
without the column, or NULL: 0."""
OP = "_mirror_op"
"""Of a row version that the server's log has: ``insert``, ``update`` or ``delete``."""
COMMITTED_AT = "_mirror_committed_at"
"""Of such a row version: when (UTC) its transaction was committed."""
POSITION = "_mirror_position"
LOADED_AT = "_mirror_loaded_at"
DAY = "_mirror_day"
DELETED = "_mirror_deleted"
ORIGINAL = "_mirror_original"
DELETED_AT = "_mirror_deleted_at"
"""In deduped and clean of tables whose deletes are flagged: when (UTC) a row was found gone."""
KEY = "_mirror_key"
TOKEN = "_mirror_token"  # noqa: S105 – a column
"""Of an entity: bytes that are equal where the server calls two tokens equal."""

SOURCE = "_mirror_source"
DATABASE = "_mirror_database"
"""Of tenants: the source and the database that a row is of."""
VERSION = "_mirror_version"
"""Of tenants: the hash of the schema version that a row was read in."""
SNAPSHOT = "_mirror_snapshot"
"""Of tables that are kept by snapshots: the one in which a row changed last."""

OF_EVENTS = (EVENT, OP, COMMITTED_AT)
"""What raw has beside, where row versions come from the server's log."""

IN_RAW = frozenset({LOAD, SEQ, *OF_EVENTS, POSITION, LOADED_AT, DAY, DELETED, KEY, TOKEN})
"""Columns that people are never shown: what has one is raw, or was made of it."""


def hash_column(name: str) -> str:
    """Where a column's keyed hashes are, in a home whose views can't compute them.

    >>> hash_column("email")
    '_mirror_hash_email'
    """
    return f"_mirror_hash_{name}"
