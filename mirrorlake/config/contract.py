"""A table's contract as the engine uses it: every default filled in, every name resolved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from functools import cached_property
from typing import ClassVar, TypeAlias

from pydantic import ConfigDict, Field
from typing_extensions import override

from mirrorlake.config.fields import Section, matches
from mirrorlake.config.landing import SnapshotConfig
from mirrorlake.config.modes import MODES, LoadMode, Mode
from mirrorlake.config.settings import (
    BigQueryLayout,
    Clean,
    ColumnRule,
    Deletes,
    Dropped,
    EntitySection,
    Freshness,
    Namespaces,
    NewColumns,
    PartitionSize,
    PiiRule,
    PublishTo,
    RepairSetting,
    SchemaPolicy,
    ShapePolicy,
    VersionsAs,
    WriteMode,
)


class Contract(Section):
    """What the file says of any mirrored table, whether one database has it or many, with the
    defaults filled in.

    MySQL's column names are one name in any case: compare the columns named here (``key``,
    ``columns``, ``excluded``, ``rules``, and of one database's table its roles) with the server's
    without regard to case; `column_rule` does.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, ignored_types=(cached_property,)
    )

    table: str
    key: tuple[str, ...] = ()
    every: timedelta = timedelta(minutes=15)
    """How long after its last request the sensor leaves it alone."""
    clean: Clean = "view"
    new_columns: NewColumns = "hide"
    """What clean does with columns that were added after the first load and that the contract does
    not name."""
    freshness: Freshness | None = None
    owners: tuple[str, ...] = ()
    shrink_limit: float | None = 0.9
    """The share of its rows by which a full copy, a snapshot or a tenant's copy may not be smaller
    than the last; None: any."""
    verify: bool = True
    """Whether loads are proved before they are visible."""
    columns: Mapping[str, ColumnRule] = {}
    namespaces: Namespaces
    write_mode: WriteMode = Field(default="merge-on-read", exclude=True)
    """How folds change its rows. No part of what these are, and so of no dump."""
    publish: tuple[PublishTo, ...] = Field(default=("lake",), exclude=True)
    """Where it is published. No part of what its loads and layers depend on, and so of no dump."""
    bigquery: BigQueryLayout | None = Field(default=None, exclude=True)
    """How it is laid out there; None: clustered by its key alone."""

    @property
    def name(self) -> str:
        """Its whole name, unique in a config."""
        raise NotImplementedError

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers that have it, by their names; none of what lands."""
        raise NotImplementedError

    @property
    def landed(self) -> bool:
        """Whether its rows come as files in a landing."""
        return False

    @property
    def in_bigquery(self) -> bool:
        """Whether it is published in BigQuery, too."""
        return "bigquery" in self.publish

    @property
    def excluded(self) -> frozenset[str]:
        """Columns that are never selected from MySQL (``pci: never``), spelled as in the file."""
        return frozenset(name for name, rule in self.columns.items() if rule.pci == "never")

    @property
    def rules(self) -> dict[str, PiiRule]:
        """Column → what the clean layer does to it, for the columns whose ``pii`` rule does
        something: ``pii: show`` does nothing."""
        return {
            name: rule.pii
            for name, rule in self.columns.items()
            if rule.pii is not None and rule.pii != "show"
        }

    @property
    def earlier_names(self) -> dict[str, tuple[str, ...]]:
        """Column → the names that it had before (``renamed_from``), the newest first; all
        in lower case."""
        return {
            name.lower(): tuple(earlier.lower() for earlier in rule.renamed_from)
            for name, rule in self.columns.items()
            if rule.renamed_from
        }

    def column_rule(self, column: str) -> ColumnRule | None:
        """The rule of a column that the server names ``column``, in any case; None where there is
        none, or it says that the column is shown as it is."""
        wanted = column.lower()
        rule = next((r for name, r in self.columns.items() if name.lower() == wanted), None)
        return None if rule is not None and rule.pii == "show" else rule

    @property
    def named(self) -> frozenset[str]:
        """Every column that the contract names, in a rule or in a role, in lower case."""
        return frozenset(name.lower() for name in (*self.key, *self.columns))


class TableContract(Contract):
    """What the file says of one table of one database."""

    source: str
    database: str
    mode: Mode
    cursor: str | None = None
    created: str | None = None
    entity: EntitySection | None = None
    start: date | None = None
    """The first day (UTC) that is requested."""
    partition: PartitionSize = "day"
    """How many raw days one partition of it has."""
    partitions_from: date | None = None
    """The first day of its partitions, where the contract says it; no row is left out by it."""
    overlap: timedelta = timedelta(minutes=30)
    overlap_keys: int = 10_000
    settle: timedelta = timedelta(hours=1)
    schema_changes: SchemaPolicy = "evolve"
    """What becomes of it when its columns change in MySQL."""
    versions: VersionsAs = "view"
    """How raw is shown over all schema versions: as a view, or a table."""
    deletes: Deletes = "remove"
    """What becomes of rows that MySQL deleted, and that its loads do not see to be gone."""
    repair: RepairSetting = "ask"
    """What becomes of rows that a scheduled exact check finds different."""
    repair_limit: int = 1_000
    """How many rows it may repair by itself."""
    lake_names: Mapping[str, str] = Field(default={}, exclude=True)
    """MySQL's name of a column → the lake's, where they differ (``name_in_lake``). Everything else
    here calls it as the lake does; that is in the dump, this is not."""
    snapshot: SnapshotConfig | None = None
    """How the table is kept by its snapshots; None unless its mode is ``snapshot``."""

    @property
    def loads(self) -> LoadMode:
        """What its mode means."""
        return MODES[self.mode]

    @property
    @override
    def landed(self) -> bool:
        return self.loads.landed

    @property
    def copies(self) -> bool:
        """Whether each load is a full copy, and the newest alone says what there is."""
        return self.loads.copies

    @property
    def rereads(self) -> bool:
        """Whether a row is read again when it changed."""
        return self.loads.rereads

    @property
    def by_log(self) -> bool:
        """Whether its changes come from the server's binary log."""
        return self.loads.by_log

    @property
    def by_count(self) -> bool:
        """Whether its rows have no key, and its server's log says of equal ones how many come and
        go."""
        return self.by_log and not self.key

    @property
    def replaces_all(self) -> bool:
        """Whether the newest load leaves no row of those before it: a copy, and what MySQL deleted
        goes."""
        return self.copies and self.deletes == "remove"

    @property
    def by_keys(self) -> bool:
        """Whether single rows can be read again."""
        return bool(self.key) and not self.copies

    @property
    @override
    def name(self) -> str:
        """``source.database.table``: unique in a config."""
        return f"{self.source}.{self.database}.{self.table}"

    @property
    @override
    def servers(self) -> tuple[str, ...]:
        return () if self.landed else (self.source,)

    @property
    def spellings(self) -> tuple[str, ...]:
        """What a person may call it, the whole name first."""
        return self.name, f"{self.database}.{self.table}", self.table

    def name_in_mysql(self, column: str) -> str:
        """What MySQL, and the contract file, call a column of the lake."""
        found = (n for n, now in self.lake_names.items() if now.lower() == column.lower())
        return next(found, column)

    @property
    @override
    def named(self) -> frozenset[str]:
        roles = [self.cursor, self.created]
        if self.entity is not None:
            roles += [self.entity.token, self.entity.created]
        if self.snapshot is not None:
            roles += [self.snapshot.day, self.snapshot.id_column]
        return super().named | {name.lower() for name in roles if name}


class TenantTable(Contract):
    """What the file says of one table that many databases have.

    Attributes:
        group: the name under ``tenants``.
        sources: the names of the servers, resolved, in order.
    """

    group: str
    sources: tuple[str, ...]
    databases: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    dropped: Dropped = "keep"
    schema_changes: ShapePolicy = "evolve"
    mode: Mode | None = None
    """How a tenant's rows come after its first copy; None: by other copies, whenever it moved."""

    @property
    def by_log(self) -> bool:
        """Whether each tenant's copy is continued by its server's binary log."""
        return self.mode is not None and MODES[self.mode].by_log

    @property
    @override
    def name(self) -> str:
        """``group.table``: unique in a config."""
        return f"{self.group}.{self.table}"

    @property
    @override
    def servers(self) -> tuple[str, ...]:
        return self.sources

    @property
    def spellings(self) -> tuple[str, ...]:
        """What a person may call it, the whole name first."""
        return self.name, self.table

    def has(self, database: str) -> bool:
        """Whether a database is one of the tenants."""
        return matches(self.databases, database) and not matches(self.left_out, database)


Mirrored: TypeAlias = TableContract | TenantTable
"""Any table that is mirrored."""
