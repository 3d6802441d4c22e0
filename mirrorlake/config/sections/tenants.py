"""The sections of tenants: databases that hold the same tables, each mirrored as one.

What belongs here: what a person may write of tenants. What doesn't: the sections beside them
(`mirrorlake.config.sections.contract_file`).

The descriptions are the JSON schema's; docs/reference/configuration.md is written from them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from mirrorlake.config.fields import Duration, Findings, MysqlName, Owner, Section
from mirrorlake.config.sections.table_findings import tenant_findings
from mirrorlake.config.settings import (
    BigQueryLayout,
    Clean,
    ColumnRule,
    Dropped,
    Freshness,
    NamespacesSection,
    NewColumns,
    Publish,
    ShapePolicy,
    WriteMode,
)


def _pattern(text: str) -> str:
    if not text or len(text) > 255 or "\0" in text:
        raise ValueError("a pattern has 1 to 255 characters and no NUL")
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]
"""A name in which ``%`` stands for any characters, or none; everything else, ``_`` too, stands for
itself."""


def _view_alone(value: object) -> object:
    if value == "table":
        raise ValueError("a table of tenants is shown by a view over all versions: remove versions")
    return value


def _no_freeze(value: object) -> object:
    if value == "freeze":
        raise ValueError("tenants evolve or fail: a column that comes later is held out of clean")
    return value


class TenantTableSection(Section):
    """The contract of a table that every tenant has."""

    key: tuple[MysqlName, ...] = ()
    """The columns of a key that is unique within one tenant. Without it rows are compared as they
    are."""
    mode: Literal["full", "binlog"] = "full"
    """How a tenant's rows come: ``full`` copies a tenant whenever it moved, ``binlog`` once, and
    then follows its server's log. It needs a key."""
    clean: Clean | None = None
    """Whether the clean layer is a ``view`` (Spark only) or a ``table`` (every engine)."""
    versions: Annotated[Literal["view"], BeforeValidator(_view_alone)] | None = None
    """How raw is shown over all schema versions: as a ``view``, whatever ``defaults`` say."""
    new_columns: NewColumns | None = None
    """What clean does with a column that a tenant gets after the table's first load: ``hide`` or
    ``show``."""
    schema_changes: Annotated[ShapePolicy, BeforeValidator(_no_freeze)] | None = None
    """What becomes of a tenant that gets a shape which the mirror does not have: ``evolve`` takes
    it up, ``fail`` leaves the tenant as it was and reports it."""
    verify: bool | None = None
    """Whether each tenant's rows are proved before anybody sees them."""
    shrink_limit: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of its rows by which a tenant's copy may not be smaller than its last one, nor may
    it be empty; ``null``: every copy is taken."""
    owners: tuple[Owner, ...] | None = None
    """Who is responsible for this table: e-mail addresses, or ``team:<name>``."""
    freshness: Freshness | None = None
    """When this table counts as late; ``null``: never."""
    write_mode: WriteMode | None = None
    """The same for this table: ``merge-on-read`` or ``copy-on-write``."""
    publish: Publish | None = None
    """Where this table is published: ``[lake]`` or ``[lake, bigquery]``."""
    bigquery: BigQueryLayout | None = None
    """How this table comes to BigQuery, and how it is laid out there."""
    columns: dict[MysqlName, ColumnRule] = {}
    """The columns that need a rule; every other column is mirrored as it is. A tenant that lacks
    one of them is mirrored without it."""

    @model_validator(mode="after")
    def _columns_fit(self) -> TenantTableSection:
        found = list(tenant_findings(self))
        if found:
            raise Findings(found)
        return self


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
    """What becomes of the rows of a tenant whose database, or table, is gone: ``keep`` them as
    they were, or ``remove`` them from deduped and clean."""
    every: Duration = timedelta(minutes=15)
    """How long after its last request the sensor requests loads of what moved again."""
    namespaces: NamespacesSection = NamespacesSection()
    """The lake's namespaces of the tables; what is left out has its default."""
    tables: dict[MysqlName, TenantTableSection] = Field(min_length=1)
    """The contracts, by table name. A table that is not here is not mirrored."""
