"""Whether a version of a table is loaded as a whole, or as what changed since the one before.

A load job costs nothing in BigQuery, a MERGE what it reads of the table: so changes are merged only
where they are the smaller part of the rows. What can't be known to be complete is loaded as a
whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirrorlake.bigquery.api.types import FieldJson
from mirrorlake.bigquery.ledger import Publication
from mirrorlake.bigquery.loads.table_form import PublishedForm
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.model import LakeTable, history, is_rewrite
from mirrorlake.destinations.iceberg.reading.changes import VersionChanges, changes_since
from mirrorlake.destinations.iceberg.reading.partition_changes import (
    PartitionChanges,
    partitions_since,
)
from mirrorlake.runtime.plural import plural

_MOST_PARTS = 1_000
"""Partitions of a model that one statement names; more are loaded as a whole."""
_LARGEST_SHARE = 0.5
"""The share of a table's rows that its changes may have; more are loaded as a whole."""


_EXPIRED = "the lake no longer has the version that was loaded before"


@dataclass(frozen=True)
class LoadChoice:
    """How a version is loaded, and why so, in words.

    Attributes:
        since: the version whose changes are loaded; None: all rows are.
        same: whether no row changed since then, so that nothing is loaded.
    """

    why: str
    since: int | None = None
    changes: VersionChanges | PartitionChanges | None = None
    same: bool = False


def choose(
    lake: Connection,
    table: LakeTable,
    rows: int,
    form: PublishedForm,
    base: Publication | None,
    bigquery_fields: list[FieldJson] | None,
) -> LoadChoice:
    """How the version that ``table`` was loaded at is brought to BigQuery.

    Args:
        rows: how many it has.
        base: what the table in BigQuery is known to be as; None: nothing that is known.
        bigquery_fields: the columns that BigQuery has now; None: no table.

    Raises:
        LakeError: the lake can't be read.
    """
    if base is None:
        known = (
            "it is the first load" if bigquery_fields is None else "what BigQuery has is not known"
        )
        return LoadChoice(known)
    if reason := _all_because(form, base, bigquery_fields):
        return LoadChoice(reason)
    if _only_rewritten(table, base.version):
        return LoadChoice(
            "its files were written again, and no row changed", base.version, same=True
        )
    if form.parts:
        return _of_partitions(lake, table, rows, base.version)
    changes = changes_since(lake, table, base.version)
    if changes is None:
        return LoadChoice(_EXPIRED)
    if changes.may_be_unset(form.key):
        return LoadChoice("a key of it may be NULL, and is equal to no other then")
    size = f"{changes.added_rows:,} of {rows:,} rows may have changed"
    if changes.added_rows > rows * _LARGEST_SHARE:
        return LoadChoice(f"{size}: more than half")
    return LoadChoice(size, base.version, changes)


def _of_partitions(lake: Connection, table: LakeTable, rows: int, since: int) -> LoadChoice:
    """How a model's version is brought to BigQuery: by the partitions that were computed again or
    went, each as a whole."""
    changes = partitions_since(lake, table, since)
    if changes is None:
        return LoadChoice(_EXPIRED)
    count = len(changes.parts)
    if count > _MOST_PARTS:
        return LoadChoice(f"{plural(count, 'partition')} changed: more than {_MOST_PARTS:,}")
    size = (
        f"{changes.added_rows:,} of {rows:,} rows are in the "
        f"{plural(count, 'partition')} that changed"
    )
    if changes.added_rows > rows * _LARGEST_SHARE:
        return LoadChoice(f"{size}: more than half")
    return LoadChoice(size, since, changes)


def _all_because(
    form: PublishedForm, base: Publication, bigquery_fields: list[FieldJson] | None
) -> str:
    """Why all rows are loaded, whatever changed; '' where nothing says so."""
    if bigquery_fields is None:
        return "the table is not in BigQuery any more"
    if not form.key and not form.parts:
        return "no key and no partitions of it can be compared in BigQuery"
    before = PublishedForm.from_json(base.form)
    if (before.column, before.per) != (form.column, form.per):
        return "its partitions are others: the table is dropped, and made again"
    if bigquery_fields != form.columns or before != form:
        return "its columns, its key or its rules are others"
    return ""


def _only_rewritten(table: LakeTable, since: int) -> bool:
    """Whether a table's versions after one only hold its rows in other files."""
    for snapshot in history(table):
        if snapshot.snapshot_id == since:
            return True
        if not is_rewrite(snapshot):
            return False
    return False
