"""Tenants: many databases that hold the same tables, mirrored as one table each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field

from mirrorlake.config.fields import Duration, MysqlName, Owner, Section
from mirrorlake.config.settings import (
    ColumnRule,
    Freshness,
    Namespaces,
    NamespacesSection,
    NewColumns,
)

Dropped: TypeAlias = Literal["keep", "remove"]


def _pattern(text: str) -> str:
    if not text or len(text) > 255 or "\0" in text:
        raise ValueError("a pattern has 1 to 255 characters and no NUL")
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]
"""A name in which ``%`` stands for any characters, or none; everything else, ``_`` too, stands for
itself."""


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether a name is one of those that the patterns mean.

    >>> matches(["shop_%"], "shop_17"), matches(["shop_%"], "shopX17"), matches(["a", "b"], "B")
    (True, False, False)
    """
    return any(
        re.fullmatch(".*".join(map(re.escape, pattern.split("%"))), name, re.DOTALL)
        for pattern in patterns
    )


class TenantTableSection(Section):
    """The contract of a table that every tenant has."""

    key: tuple[MysqlName, ...] = ()
    """The columns of a key that is unique within one tenant. Without it rows are compared as they
    are."""
    new_columns: NewColumns | None = None
    """What clean does with a column that a tenant gets after the table's first load: ``hide`` or
    ``show``."""
    verify: bool | None = None
    """Whether each tenant's rows are proved before anybody sees them."""
    shrink_limit: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of its rows by which a tenant's copy may not be smaller than its last one, nor may
    it be empty; ``null``: every copy is taken."""
    owners: tuple[Owner, ...] | None = None
    """Who answers for this table: e-mail addresses, or ``team:<name>``."""
    freshness: Freshness | None = None
    """When this table counts as late; ``null``: never."""
    columns: dict[MysqlName, ColumnRule] = Field(default_factory=dict[MysqlName, ColumnRule])
    """The columns that need a rule; every other column is mirrored as it is. A tenant that lacks
    one of them is mirrored without it."""


class TenantsSection(Section):
    """Databases that hold the same tables: each table is mirrored as one, with the tenant as a
    column."""

    sources: tuple[Pattern, ...] = Field(min_length=1)
    """The servers that have them: names under ``sources``, or patterns with ``%``."""
    databases: tuple[Pattern, ...] = Field(min_length=1)
    """Which of their databases are tenants: names, or patterns in which ``%`` stands for any
    characters. One that appears later joins by itself."""
    left_out: tuple[Pattern, ...] = ()
    """Databases that the patterns mean and that are no tenants."""
    dropped: Dropped = "keep"
    """What becomes of the rows of a tenant whose database, or table, is no more: ``keep`` them as
    they were, or ``remove`` them from deduped and clean."""
    every: Duration = timedelta(minutes=15)
    """How long after its last request the sensor requests loads of what moved again."""
    namespaces: NamespacesSection = NamespacesSection()
    """The lake's namespaces of the tables; what is left out has its default."""
    tables: dict[MysqlName, TenantTableSection] = Field(min_length=1)
    """The contracts, by table name. A table that is not here is not mirrored."""


class TenantTable(Section):
    """One table of many databases, with every default filled in.

    Attributes:
        group: the name under ``tenants``.
        sources: the names of the servers, resolved, in order.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, ignored_types=(cached_property,)
    )

    group: str
    table: str
    sources: tuple[str, ...]
    databases: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    dropped: Dropped = "keep"
    every: timedelta = timedelta(minutes=15)
    key: tuple[str, ...] = ()
    new_columns: NewColumns = "hide"
    verify: bool = True
    shrink_limit: float | None = 0.9
    owners: tuple[str, ...] = ()
    freshness: Freshness | None = None
    columns: Mapping[str, ColumnRule] = {}
    namespaces: Namespaces

    @property
    def name(self) -> str:
        """``group.table``: unique in a config."""
        return f"{self.group}.{self.table}"

    def has(self, database: str) -> bool:
        """Whether a database is one of the tenants."""
        return matches(self.databases, database) and not matches(self.left_out, database)
