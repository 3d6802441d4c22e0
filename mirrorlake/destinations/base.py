"""The port of a destination: what the layers above may expect of any lake.

A destination has tables; a table has versions, and branches which are names for versions. What is
written to a branch is seen by nobody until the branch is published. A commit carries the id of the
load that it belongs to, so that a run which died can be found out afterwards.

What belongs here: names and promises. What doesn't: how a lake keeps them, which is one package
for each kind of lake (`mirrorlake.destinations.iceberg`); how an engine like Spark reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

CATALOG = "lake"
"""What Spark calls the destination: the first part of every table's name in SQL."""
MAIN = "main"
"""The branch that readers see."""


@dataclass(frozen=True)
class Identifier:
    """A lake table's namespace and name; either may hold any characters."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def path(self) -> tuple[str, str]:
        """Both parts by themselves: names are never split at dots."""
        return (self.namespace, self.name)

    @property
    def sql(self) -> str:
        """As Spark takes it, quoted."""
        return ".".join(as_sql_identifier(part) for part in (CATALOG, *self.path))

    def beside(self, what: str) -> Identifier:
        """A small table that a landing's rows have beside them: `SIDES`."""
        return Identifier(f"{self.namespace}__side", f"{self.name}__{what}")


SIDES = ("missing", "cells")
"""What stands beside a landing's rows: the keys that the newest snapshots lack, and digests."""


def as_sql_identifier(name: str) -> str:
    """A column's name as Spark takes it."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A text as Spark takes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True)
class Condition:
    """Rows by the value of one column, which lies between two, both included; None: without an end.

    Attributes:
        column: empty for every row.
        or_null: whether the rows without a value are meant, too.
    """

    column: str = ""
    lo: Any = None
    hi: Any = None
    or_null: bool = False


EVERY_ROW = Condition()


@dataclass(frozen=True)
class Commit:
    """What one load adds to a raw table and what that replaces: the files that a condition on the
    partition selects, and the files named in ``removes``.

    ``branch`` is where: main, or a branch that was made, whose head is ``parent``. ``metrics`` are
    what the writers of the files counted, as the destination's JSON, by path; a file without is
    read.
    """

    identifier: Identifier
    parent: int | None
    paths: Sequence[str]
    properties: dict[str, str]
    replaces: Condition | None = None
    removes: frozenset[str] = frozenset()
    metrics: Mapping[str, str] = field(default_factory=dict)
    branch: str = MAIN


@dataclass(frozen=True)
class LocalFiles:
    """Parquet files on this machine's disk.

    Attributes:
        filled: the columns in which none of them has NULL, by the table's metadata.
    """

    paths: tuple[str, ...]
    filled: frozenset[str]


@dataclass(frozen=True)
class TableStatistics:
    """What the metadata of one version count; rows that were deleted by a file of their own are
    still among ``rows``."""

    rows: int
    data_files: int
    delete_files: int
    bytes: int


class Destination(Protocol):
    """A lake. Versions are numbers that the destination gives out; the caller of everything that
    writes holds the table's lease.

    Each method raises LakeError where the catalog or the storage failed.
    """

    # --- tables -----------------------------------------------------------------------------------

    def make_namespace(self, namespace: str) -> None:
        """Make a namespace, unless it is there."""
        ...

    def location(self, identifier: Identifier) -> str:
        """Where a table's files live."""
        ...

    def drop(self, identifier: Identifier) -> bool:
        """Take a table out of the catalog; whether it was there. Its files stay."""
        ...

    def rename(self, old: Identifier, new: Identifier) -> None:
        """Give a table another name; its files stay where they are."""
        ...

    def delete_files(self, identifier: Identifier, paths: Sequence[str]) -> None:
        """Remove files that no commit names; best effort, what stays is an orphan."""
        ...

    def translated(self, what: object) -> AbstractContextManager[None]:
        """Turn what the destination's libraries raise into LakeErrors of a table."""
        ...

    # --- versions ---------------------------------------------------------------------------------

    def head(self, identifier: Identifier) -> int | None:
        """The version that main shows; None for an empty table, or none."""
        ...

    def commit(self, change: Commit, /) -> int | None:
        """Add a load's files, and remove what it replaces, in one version; its number.

        None if there is nothing to add and nothing to remove.

        Raises:
            CommitConflict: the table (or its branch) is not at ``change.parent`` any more; nothing
                of this is visible.
        """
        ...

    def find_load(self, identifier: Identifier, load_id: str) -> int | None:
        """The version in main's history that a load made; None if main never showed it."""
        ...

    # --- branches ---------------------------------------------------------------------------------

    def branches(self, identifier: Identifier) -> Mapping[str, int]:
        """The table's branches, main among them unless the table is empty, and their heads.

        Raises:
            LakeError: there is no such table.
        """
        ...

    def create_branch(self, identifier: Identifier, name: str, at: int | None) -> int:
        """Make a branch that shows what the table showed at a version; its head.

        Raises:
            LakeError: the branch is there already, or the table has no such version.
            CommitConflict: another writer was faster; there is no new branch.
        """
        ...

    def begin_branch(self, identifier: Identifier, name: str) -> int:
        """Make a branch that begins with nothing, whatever main shows; its head."""
        ...

    def publish_branch(
        self, identifier: Identifier, name: str, expected: int | None, *, keep: bool = False
    ) -> int:
        """Move main forward to a branch's head and drop the branch; main's new head.

        Args:
            expected: main's head, from which the branch was made; None: main was empty.
            keep: whether the branch stays.

        Raises:
            CommitConflict: main has moved since: nothing was changed.
        """
        ...

    def replace_main(
        self,
        identifier: Identifier,
        name: str,
        expected: int | None,
        columns: Mapping[str, str] | None = None,
    ) -> int:
        """Show on main what a branch shows that did not come of it; main's new head.

        Args:
            columns: name → the column of the branch that takes it, in the same commit.
        """
        ...

    def roll_back(self, identifier: Identifier, to: int, expected: int) -> int:
        """Set main back to a version that it showed before; its new head."""
        ...

    def set_forward(self, identifier: Identifier, to: int, expected: int) -> int:
        """Undo a `roll_back`."""
        ...

    def drop_branch(self, identifier: Identifier, name: str) -> None:
        """Take a branch's name away; its versions stay until they expire."""
        ...

    # --- reading ----------------------------------------------------------------------------------

    def scan(
        self,
        identifier: Identifier,
        columns: Sequence[str],
        rows: Condition = EVERY_ROW,
        version: int | None = None,
    ) -> Iterator[pa.RecordBatch] | None:
        """The rows of a version that a condition selects, in no order, typed as the table says.

        Memory does not grow with the table.

        Args:
            version: None for the one that main shows.

        Returns:
            None where there is no such table.
        """
        ...

    def local_files(
        self, identifier: Identifier, columns: Sequence[str], version: int
    ) -> LocalFiles | None:
        """The files whose rows are all of a version's, in the columns as the table has them.

        Returns:
            None where there is no such table, or a file can't be read as it is: it is on no disk of
            this machine, has other columns, or rows of it were deleted.
        """
        ...

    def count_rows(self, identifier: Identifier) -> int | None:
        """The rows of a table as main shows them; None if it is not there."""
        ...

    def statistics(
        self, identifier: Identifier, version: int | None = None
    ) -> TableStatistics | None:
        """What a version's metadata count; None where the table, or the version, is not there.

        Args:
            version: None for the one that main shows.
        """
        ...
