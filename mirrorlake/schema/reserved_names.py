"""Names that no column of the lake can have, and names that are one to Spark.

Found by taking each candidate through every layer and reader:
``tests/integration/operations/test_reserved_names.py``.

Source: Iceberg specification, "Reserved Field IDs"; Spark's MERGE, which marks rows by columns of
its own while it runs.
"""

from __future__ import annotations

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


def _as_spark_compares(character: str) -> str:
    """A character as Java compares names without regard to case: ``ſ`` is ``s``, ``ς`` is ``σ``."""
    upper = character.upper()
    upper = upper if len(upper) == 1 else character
    lower = upper.lower()
    return lower if len(lower) == 1 else upper
