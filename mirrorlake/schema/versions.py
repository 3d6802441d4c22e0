"""Schema versions: one hash for one shape of a source table.

A raw table holds rows of exactly one version, so that a change of schema never rewrites or
reinterprets what was loaded before it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_DISPLAY_WIDTH = re.compile(r"^((?:tiny|small|medium|big)?int|year)\(\d+\)")


@dataclass(frozen=True)
class Exact:
    """How one column is read and kept.

    Attributes:
        name: the column's name in the lake.
        iceberg: Iceberg's type, in the specification's words.
        select: the SQL expression of the value.
        original: the SQL expression of the exact text of a value that has no place in the typed
            column (NULL for all others), or None where every value has one.
        decode: what ``select`` gives, where that is not the value itself: ``date`` and ``datetime``
            are numbers (YYYYMMDD, YYYYMMDDhhmmss), which hold value and original; ``unscaled`` is
            a decimal's digits as a whole number.
        derived: whether it is no column of the server's, but computed from its rows.
        keeps_value: whether the typed value stands beside its original (ENUM's error value) rather
            than being NULL.
        source: MySQL's name of it, where that is another one.
    """

    name: str
    iceberg: str
    select: str
    original: str | None = None
    keeps_value: bool = False
    decode: str = ""
    derived: bool = False
    source: str = ""

    @property
    def has_original(self) -> bool:
        """Whether a value of it may have no place in the typed column."""
        return self.original is not None or self.decode in ("date", "datetime")


FIRST_CREATED: Final = "original_created_at"
"""Of an entity: when the first of the rows that share its token was created."""


def first_created_column(token: str, created: str) -> tuple[str, str]:
    """What an entity adds to the columns of a schema version: with another token, another type."""
    return FIRST_CREATED, f"first {created} by {token}"


_NO_NAMES: Final[Mapping[str, Sequence[str]]] = {}


def name_in(
    names: Iterable[str], column: str, names_before: Mapping[str, Sequence[str]] = _NO_NAMES
) -> str | None:
    """What a column is called among these names, of a version of its table: by the name that it had
    before, where that is there; by its own; or by its own in another case (to MySQL one name). None
    if it is not there.

    A version that has several of its names is of before the last of its renames: the column had the
    oldest of them then, and what had a later one is another column, which was dropped.

    Args:
        names_before: column → the names that it had, the newest first; all in lower case.

    >>> name_in(["Id", "mail"], "id"), name_in(["id", "mail"], "email", {"email": ["mail"]})
    ('Id', 'mail')
    >>> name_in(["price", "price_new"], "price", {"price": ["price_new"]})
    'price_new'
    >>> name_in(["price", "price_new"], "cost", {"cost": ["price", "price_new"]})
    'price_new'
    """
    there = list(names)
    if before := names_before.get(column.lower(), ()):
        folded = {name.lower(): name for name in there}
        earlier = next((folded[name] for name in reversed(before) if name in folded), None)
        if earlier is not None:
            return earlier
    if column in there:
        return column
    # To MySQL "ß" is not "ss": case-folding would take two columns for one.
    return {name.lower(): name for name in there}.get(column.lower())


@dataclass(frozen=True)
class SchemaChanges:
    """What one schema version has that another had not.

    Attributes:
        added, dropped: names of columns; one that nobody said was renamed is in both.
        retyped: (name, its type before, its type now).
        renamed: (its name before, its name now).
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    retyped: tuple[tuple[str, str, str], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """A few words for each change.

        >>> SchemaChanges(("a",), ("b",), (("c", "int", "bigint"),)).words
        ('a was added', 'b was dropped', 'c was int, is bigint')
        """
        return (
            *(f"{name} was added" for name in self.added),
            *(f"{name} was dropped" for name in self.dropped),
            *(f"{before} was renamed {now}" for before, now in self.renamed),
            *(f"{name} was {before}, is {now}" for name, before, now in self.retyped),
        )

    @property
    def beside(self) -> str:
        """What one version has otherwise than another that is there at the same time.

        >>> SchemaChanges(("a",), ("b",), (("c", "int", "bigint"),)).beside
        'with a, without b, c is bigint'
        """
        found = [f"with {name}" for name in self.added]
        found += [f"without {name}" for name in self.dropped]
        found += [f"{now} for {before}" for before, now in self.renamed]
        found += [f"{name} is {now}" for name, _, now in self.retyped]
        return ", ".join(found) or "in another order"

    @property
    def said(self) -> str:
        """The changes between two versions that differ, in one line: without any, it is the order.

        >>> SchemaChanges(("a",), ("b",)).said, SchemaChanges().said
        ('a was added; b was dropped', 'its columns stand in another order')
        """
        return "; ".join(self.words) or "its columns stand in another order"


@dataclass(frozen=True)
class SchemaVersion:
    """The columns that a contract reads of a table, and their hash.

    Attributes:
        table: the source table's name, without its database: equal tables of several databases
        share
            their versions.
        columns: (name, type) in the server's order; types without what servers print differently.
    """

    table: str
    columns: tuple[tuple[str, str], ...]

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits of SHA-256 over the table's name, its columns' names, types and
        sizes."""
        encoded = json.dumps([self.table, self.columns], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(encoded.encode()).hexdigest()[:10]

    @property
    def raw_table(self) -> str:
        """The name of the raw table that holds rows of this version."""
        return f"{self.table}_v_{self.hash}"

    def nearest(
        self,
        others: Sequence[SchemaVersion],
        names_before: Mapping[str, Sequence[str]] = _NO_NAMES,
    ) -> tuple[int, SchemaChanges]:
        """The one of these versions that differs least, by its place among them, and in what.

        Args:
            others: at least one.
        """
        changes = [self.changes_from(one, names_before) for one in others]
        at = min(range(len(others)), key=lambda one: len(changes[one].words))
        return at, changes[at]

    def changes_from(
        self, earlier: SchemaVersion, names_before: Mapping[str, Sequence[str]] = _NO_NAMES
    ) -> SchemaChanges:
        """What changed since an earlier version; nothing where only the columns' order did.

        Args:
            names_before: column → the names that it had, the newest first; all in lower case.
        """
        before, now = dict(earlier.columns), dict(self.columns)
        was = {name: name_in(before, name, names_before) for name in now}
        renamed = {old: name for name, old in was.items() if old is not None and old != name}
        return SchemaChanges(
            added=tuple(name for name, old in was.items() if old is None),
            dropped=tuple(n for n in before if n not in was.values()),
            retyped=tuple(
                (name, before[old], now[name])
                for name, old in was.items()
                if old is not None and now[name] != before[old]
            ),
            renamed=tuple(renamed.items()),
        )


def schema_version(table: str, columns: Sequence[tuple[str, str]]) -> SchemaVersion:
    """The version of a table from its columns' names and ``COLUMN_TYPE`` texts.

    Integer display widths are left out: MySQL 8.0.19 and later don't print them, MariaDB does.

    >>> old = schema_version("t", [("a", "int(11)"), ("b", "tinyint(1) unsigned")])
    >>> old.columns
    (('a', 'int'), ('b', 'tinyint unsigned'))
    >>> old.hash == schema_version("t", [("a", "int"), ("b", "tinyint unsigned")]).hash
    True
    """
    return SchemaVersion(table, tuple((name, without_width(kind)) for name, kind in columns))


def without_width(column_type: str) -> str:
    """A type without an integer's display width: MySQL 8.0.19 and later print none."""
    return _DISPLAY_WIDTH.sub(r"\1", column_type.strip())
