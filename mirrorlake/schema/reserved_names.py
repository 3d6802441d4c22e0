"""Names that no column of the lake can have, names that are one to Spark, and names that BigQuery
can't have.

Found by taking each candidate through every layer and reader:
``tests/integration/operations/test_reserved_names.py``.

Source: Iceberg specification, "Reserved Field IDs"; Spark's MERGE, which marks rows by columns of
its own while it runs; BigQuery, "Table schema: column names", "Table naming", "Name datasets".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

UNREADABLE: Final = (
    *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"),
    "_last_updated_sequence_number",
)
"""Spark reads no table that has such a column."""
_IN_ANY_CASE: Final = {
    **dict.fromkeys(("_file", "_pos", "_spec_id", "_partition"), "Iceberg"),
    **dict.fromkeys(("__row_from_source", "__row_from_target"), "Spark"),
}
"""Those that a MERGE works with, in which any case of a name is one."""
_OURS: Final = "_mirror_"
_COLUMN_THERE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,299}")
_BEGINNINGS: Final = (
    *("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier"),
    *("_change_sequence_number", "_change_type", "_change_timestamp"),
)
"""What no column's name may begin with in BigQuery, in any case."""
_TABLE_THERE: Final = re.compile(r"[\w -]+")
_DATASET_THERE: Final = re.compile(r"[A-Za-z0-9_]{1,1024}")


@dataclass(frozen=True)
class NameProblem:
    """Why a column can't be in the lake by its name: ``column 'a' …``; ``kind`` leaves out which
    column it is."""

    column: str
    words: str
    kind: str


def keeper_of(name: str) -> str | None:
    """Who keeps a name for columns of its own; None where a column may be called so.

    >>> keeper_of("_deleted"), keeper_of("_DELETED"), keeper_of("_Mirror_x"), keeper_of("deleted")
    ('Iceberg', None, 'Mirrorlake', None)
    """
    if name.casefold().startswith(_OURS):
        return "Mirrorlake"
    return "Iceberg" if name in UNREADABLE else _IN_ANY_CASE.get(name.lower())


def name_problems(names: Iterable[str]) -> Iterator[NameProblem]:
    """What is wrong with the names of a table's columns, a problem for each column.

    >>> [one.words for one in name_problems(["a", "A", "_pos"])]
    ["columns 'a' and 'A' are one name to Spark", "column '_pos' is called as Iceberg's own are"]
    """
    first: dict[str, str] = {}
    for name in names:
        before = first.setdefault("".join(map(_as_spark_compares, name)), name)
        if before != name:
            words = f"columns {before!r} and {name!r} are one name to Spark"
            yield NameProblem(name, words, "two columns are one name to Spark")
        keeper = keeper_of(name)
        if keeper is not None:
            kind = f"is called as {keeper}'s own are"
            yield NameProblem(name, f"column {name!r} {kind}", f"a column {kind}")


def column_in_bigquery(name: str) -> bool:
    """Whether a column may be called so in BigQuery.

    >>> [column_in_bigquery(name) for name in ("total", "größe", "_PARTITIONTIME")]
    [True, False, False]
    """
    return bool(_COLUMN_THERE.fullmatch(name)) and not name.lower().startswith(_BEGINNINGS)


def table_in_bigquery(name: str) -> bool:
    """Whether a table or a view may be called so in BigQuery: letters, digits, spaces, - and _.

    >>> table_in_bigquery("zwölf Räume"), table_in_bigquery("a.b")
    (True, False)
    """
    return bool(_TABLE_THERE.fullmatch(name)) and len(name.encode()) <= 900


def dataset_in_bigquery(name: str) -> bool:
    """Whether a namespace may be a dataset's name in BigQuery.

    >>> dataset_in_bigquery("shop_eu"), dataset_in_bigquery("größe")
    (True, False)
    """
    return bool(_DATASET_THERE.fullmatch(name))


def bigquery_problems(namespace: str, table: str, columns: Iterable[str]) -> Iterator[NameProblem]:
    """What of a table's names BigQuery can't have; ``column`` is '' where it is the table's own.

    >>> [one.words for one in bigquery_problems("shop", "a.b", ["id", "a b"])]
    ["BigQuery has no table called 'a.b'", "BigQuery has no column called 'a b'"]
    """
    if not dataset_in_bigquery(namespace):
        yield _not_there("dataset", namespace, "")
    if not table_in_bigquery(table):
        yield _not_there("table", table, "")
    for name in columns:
        if not column_in_bigquery(name):
            yield _not_there("column", name, name)


def _not_there(kind: str, name: str, column: str) -> NameProblem:
    words = f"BigQuery has no {kind} called"
    return NameProblem(column, f"{words} {name!r}", f"{words} so")


def _as_spark_compares(character: str) -> str:
    """A character as Java compares names without regard to case: ``ſ`` is ``s``, ``ς`` is ``σ``."""
    upper = character.upper()
    upper = upper if len(upper) == 1 else character
    lower = upper.lower()
    return lower if len(lower) == 1 else upper
