"""Tables that are made elsewhere, as they were when they were looked at.

What belongs here: what is known of one, and its version. What doesn't: looking
(`mirrorlake.models.external_sources.inspect`), and reading rows
(`mirrorlake.models.spark.external_views`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Protocol

from mirrorlake.errors import ModelError
from mirrorlake.models.files.external_table import ExternalDeclaration
from mirrorlake.models.row_filters.value_sets import ValueSet
from mirrorlake.models.spark_sql.columns import Relation, relation_of
from mirrorlake.sources.files.parquet_folder import ParquetFile, ParquetFolder

OF_MODEL = "mirrorlake.model"
"""The property of a table that says which model made it."""


class StreamedIn(Protocol):
    """Rows that were streamed into a table and are in no version of it yet."""

    @property
    def estimated(self) -> int:
        """About how many; nobody counts them."""
        ...

    @property
    def oldest_at(self) -> datetime | None:
        """When the oldest came (UTC)."""
        ...


class SeenInStore(Protocol):
    """A table of a capability's store, as it was when it was looked at."""

    @property
    def name(self) -> str:
        """Its whole name there."""
        ...

    @property
    def column_names(self) -> Sequence[str]: ...
    @property
    def version(self) -> str:
        """Another one whenever anything of the table changed."""
        ...

    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def changed_at(self) -> datetime | None: ...
    @property
    def streaming(self) -> StreamedIn | None: ...


Reached = Sequence[Mapping[str, ValueSet]]
"""For each mention of a table, its partition columns and their values; what is not in it has no
bound."""


@dataclass(frozen=True)
class ExternalInput:
    """What a model reads of a table that is made elsewhere.

    Attributes:
        mentions: for each place where the query names it, those of its partition columns that have
            a bound, in lower case, with their values. Empty where no row can matter.
    """

    table: str
    mentions: tuple[tuple[tuple[str, ValueSet], ...], ...]

    @property
    def bounded(self) -> bool:
        return all(self.mentions)

    @property
    def reached(self) -> Sequence[Mapping[str, ValueSet]]:
        """The mentions, each by column."""
        return [dict(one) for one in self.mentions]


@dataclass(frozen=True)
class ExternalTable:
    """A table that is made elsewhere, and is as its file declares.

    Attributes:
        snapshot: of Iceberg, its newest; None of an empty table.
        rows_of: the snapshot that last changed rows.
        folder: of Parquet, how it is read.
        files: of Parquet, all that were there.
        stored: of a capability's store, the table as it was.
    """

    declaration: ExternalDeclaration
    snapshot: int | None = None
    rows_of: int | None = None
    folder: ParquetFolder | None = None
    files: tuple[ParquetFile, ...] = ()
    stored: SeenInStore | None = None

    @property
    def name(self) -> str:
        return self.declaration.name

    @cached_property
    def relation(self) -> Relation:
        """Its declared columns for a query."""
        declared = self.declaration.columns
        return relation_of(self.name, ((one.name, one.type, one.nullable) for one in declared))

    def reached(self, mentions: Reached) -> tuple[ParquetFile, ...]:
        """The files that may have rows that some mention depends on."""
        by = self.declaration.partition_by
        return tuple(
            one for one in self.files if any(_may_hold(one, by, mention) for mention in mentions)
        )

    def version(self, mentions: Reached) -> str:
        """What is read of it, as a text that is another one when that moved."""
        if self.stored is not None:
            return self.stored.version
        if self.folder is None:
            return str(self.rows_of or 0)
        digest = hashlib.sha256()
        for one in self.reached(mentions):
            digest.update(f"{one.path}\0{one.bytes}\0{one.version}\0".encode())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class ExternalLook:
    """A table that is made elsewhere, as it is, and what is otherwise than its file declares.

    Attributes:
        table: how it is read if nothing is otherwise.
        drift: an error of the file for each difference.
        undeclared: columns that are there and are not read; of Parquet nobody looks for them.
    """

    table: ExternalTable
    drift: tuple[ModelError, ...]
    undeclared: tuple[str, ...] = ()


def _may_hold(file: ParquetFile, by: Sequence[str], mention: Mapping[str, ValueSet]) -> bool:
    for name, value in zip(by, file.values, strict=True):
        bound = mention.get(name.lower())
        # A bound is never true of NULL.
        if bound is not None and (value is None or not bound.touches(value, value)):
            return False
    return True


@dataclass(frozen=True)
class Externals:
    """The tables of a project that are made elsewhere.

    Attributes:
        tables: those that are as they are declared, by name.
        why: the names of the others, each with what is wrong.
    """

    tables: Mapping[str, ExternalTable] = field(default_factory=dict[str, ExternalTable])
    why: Mapping[str, ModelError] = field(default_factory=dict[str, ModelError])

    @property
    def problems(self) -> tuple[ModelError, ...]:
        return tuple(self.why.values())

    @property
    def failed(self) -> frozenset[str]:
        return frozenset(self.why)
