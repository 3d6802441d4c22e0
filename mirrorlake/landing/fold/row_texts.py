"""Rows as texts and digests, for the trace: nothing of it is the fold's."""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.landing.fold.shape import SnapshotTable


def digest_sql(table: SnapshotTable) -> str:
    """128 bits of a SHA-256 over the compared columns beside the key: NULL differs from every text,
    and no two rows have one form."""
    return f"unhex(substr(sha2({_form(other_columns(table))}, 256), 1, 32))"


def _form(columns: Sequence[tuple[str, str]]) -> str:
    cells = [
        f"coalesce(concat(octet_length({text}), ':', {text}), 'N')"
        for text in (shown_sql(name, kind) for name, kind in columns)
    ]
    return f"concat('', {', '.join(cells)})" if cells else "''"


def key_hash_sql(table: SnapshotTable) -> str:
    """A SHA-256 over the key's columns."""
    return f"sha2({_form(key_columns(table))}, 256)"


def shown_sql(name: str, kind: str) -> str:
    """A value as text: no two values of one type have the same. (SQL calls -0.0 and 0.0 equal;
    their texts are not.)"""
    column = as_sql_identifier(name)
    if kind == "binary":
        return f"hex({column})"
    return f"to_json({column})" if kind.startswith("list<") else f"CAST({column} AS STRING)"


def key_columns(table: SnapshotTable) -> list[tuple[str, str]]:
    """(name, Iceberg type) of the key's columns."""
    types = dict(table.columns)
    return [(name, types[name]) for name in table.key]


def other_columns(table: SnapshotTable) -> list[tuple[str, str]]:
    """(name, Iceberg type) of the compared columns beside the key."""
    return [(name, kind) for name, kind in table.compared if name not in table.key]
