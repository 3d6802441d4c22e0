"""A table of another tool's, whatever it is kept in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class TheirRows:
    """A table's rows, as DuckDB reads them.

    Attributes:
        relation: what stands behind FROM.
        columns: name → DuckDB's type.
        version: what exactly was read: files, a snapshot, a position.
        is_same: whether it still is what ``version`` says.
        written: name → the type in the words of what keeps the table, where DuckDB's are others.
    """

    relation: str
    columns: Mapping[str, str]
    version: str
    is_same: Callable[[], bool] = lambda: True
    written: Mapping[str, str] = field(default_factory=dict[str, str])


class TheirTable(Protocol):
    """A table that another tool made."""

    @property
    def name(self) -> str:
        """What it is called there, without a schema or a folder."""
        ...

    @property
    def schema(self) -> str:
        """The schema that it is in; '' where there are none."""
        ...

    @property
    def place(self) -> str:
        """Where it is, and in what it is kept; never a password."""
        ...

    def open(self, database: Any, folder: Path) -> TheirRows:
        """Give its rows to a database.

        Args:
            folder: where rows may be put that DuckDB can't read from where they are.

        Raises:
            LakeError: it can't be read.
        """
        ...


def types_of(database: Any, relation: str) -> dict[str, str]:
    """The columns of a relation, with DuckDB's types."""
    found = database.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()  # noqa: S608
    return {str(name): str(kind) for name, kind, *_ in found}
