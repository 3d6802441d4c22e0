"""What the engine uses: every path absolute, every default filled in, every name resolved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import ClassVar, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, SecretStr

from mirrorlake.config.fields import Section, matches
from mirrorlake.config.landing import LandingConfig, SnapshotConfig
from mirrorlake.config.modes import MODES, LoadMode, Mode
from mirrorlake.config.readers import ReadersConfig
from mirrorlake.config.secrets import UnsetSecret
from mirrorlake.config.server import SourceConfig
from mirrorlake.config.settings import (
    BigQueryLayout,
    Clean,
    ColumnRule,
    Deletes,
    Dropped,
    EntitySection,
    Freshness,
    LakeConfig,
    LedgerConfig,
    Namespaces,
    NewColumns,
    PartitionSize,
    PiiRule,
    PrivacyConfig,
    PublishTo,
    RepairSetting,
    SchemaPolicy,
    ShapePolicy,
    SparkConfig,
    VersionsAs,
    WriteMode,
)
from mirrorlake.config.spelling import (
    FOR_TENANTS,
    all_spellings,
    expand,
    find_named,
    of_tenants,
    unknown_name,
)
from mirrorlake.errors import ConfigError

SectionT = TypeVar("SectionT", bound=Section)


class TableContract(Section):
    """What the file says of one table, with the defaults filled in.

    MySQL's column names are one name in any case: compare the columns named here (``key``,
    ``cursor``, ``created``, ``entity``, ``columns``, ``excluded``, ``rules``) with the server's
    without regard to case; `column_rule` does.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, ignored_types=(cached_property,)
    )

    source: str
    database: str
    table: str
    mode: Mode
    key: tuple[str, ...] = ()
    cursor: str | None = None
    created: str | None = None
    entity: EntitySection | None = None
    start: date | None = None
    """The first day (UTC) that is requested."""
    partition: PartitionSize = "day"
    """How many raw days one partition of it has."""
    partitions_from: date | None = None
    """The first day of its partitions, where the contract says it; no row is left out by it."""
    every: timedelta = timedelta(minutes=15)
    """How long after its last request the sensor leaves it alone."""
    overlap: timedelta = timedelta(minutes=30)
    overlap_keys: int = 10_000
    settle: timedelta = timedelta(hours=1)
    clean: Clean = "view"
    new_columns: NewColumns = "hide"
    """What clean does with columns that were added after the first load and that the contract does
    not name."""
    schema_changes: SchemaPolicy = "evolve"
    """What becomes of it when its columns change in MySQL."""
    versions: VersionsAs = "view"
    """How raw is shown over all schema versions: as a view, or a table."""
    freshness: Freshness | None = None
    owners: tuple[str, ...] = ()
    shrink_limit: float | None = 0.9
    """The share of its rows by which a full copy or a snapshot may not be smaller than the last;
    None: any."""
    deletes: Deletes = "remove"
    """What becomes of rows that MySQL deleted, and that its loads do not see to be gone."""
    repair: RepairSetting = "ask"
    """What becomes of rows that a scheduled exact check finds different."""
    repair_limit: int = 1_000
    """How many rows it may repair by itself."""
    verify: bool = True
    """Whether loads are proved before they are visible."""
    columns: Mapping[str, ColumnRule] = {}
    lake_names: Mapping[str, str] = Field(default={}, exclude=True)
    """MySQL's name of a column → the lake's, where they differ (``name_in_lake``). Everything else
    here calls it as the lake does; that is in the dump, this is not."""
    namespaces: Namespaces
    snapshot: SnapshotConfig | None = None
    """How the table is kept by its snapshots; None unless its mode is ``snapshot``."""
    write_mode: WriteMode = Field(default="merge-on-read", exclude=True)
    """How folds change its rows. No part of what these are, and so of no dump."""
    publish: tuple[PublishTo, ...] = Field(default=("lake",), exclude=True)
    """Where it is published. No part of what its loads and layers depend on, and so of no dump."""
    bigquery: BigQueryLayout | None = Field(default=None, exclude=True)
    """How it is laid out there; None: clustered by its key alone."""

    @property
    def loads(self) -> LoadMode:
        """What its mode means."""
        return MODES[self.mode]

    @property
    def landed(self) -> bool:
        """Whether its rows come as files in a landing."""
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
    def replaces_all(self) -> bool:
        """Whether the newest load leaves no row of those before it: a copy, and what MySQL deleted
        goes."""
        return self.copies and self.deletes == "remove"

    @property
    def by_keys(self) -> bool:
        """Whether single rows can be read again."""
        return bool(self.key) and not self.copies

    @property
    def name(self) -> str:
        """``source.database.table``: unique in a config."""
        return f"{self.source}.{self.database}.{self.table}"

    @property
    def spellings(self) -> tuple[str, ...]:
        """What a person may call it, the whole name first."""
        return self.name, f"{self.database}.{self.table}", self.table

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

    def name_in_mysql(self, column: str) -> str:
        """What MySQL, and the contract file, call a column of the lake."""
        found = (n for n, now in self.lake_names.items() if now.lower() == column.lower())
        return next(found, column)

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
        roles = [*self.key, self.cursor, self.created]
        if self.entity is not None:
            roles += [self.entity.token, self.entity.created]
        if self.snapshot is not None:
            roles += [self.snapshot.day, self.snapshot.id_column]
        return frozenset(name.lower() for name in (*roles, *self.columns) if name)


class TenantTable(Section):
    """One table of many databases, with every default filled in.

    Attributes:
        group: the name under ``tenants``.
        sources: the names of the servers, resolved, in order.
    """

    group: str
    table: str
    sources: tuple[str, ...]
    databases: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    dropped: Dropped = "keep"
    every: timedelta = timedelta(minutes=15)
    key: tuple[str, ...] = ()
    clean: Clean = "view"
    new_columns: NewColumns = "hide"
    schema_changes: ShapePolicy = "evolve"
    verify: bool = True
    shrink_limit: float | None = 0.9
    owners: tuple[str, ...] = ()
    freshness: Freshness | None = None
    columns: Mapping[str, ColumnRule] = {}
    namespaces: Namespaces
    write_mode: WriteMode = Field(default="merge-on-read", exclude=True)
    """How folds change its rows. No part of what these are, and so of no dump."""
    publish: tuple[PublishTo, ...] = Field(default=("lake",), exclude=True)
    """Where it is published. No part of what its loads and layers depend on, and so of no dump."""
    bigquery: BigQueryLayout | None = Field(default=None, exclude=True)
    """How it is laid out there; None: clustered by its key alone."""

    @property
    def in_bigquery(self) -> bool:
        """Whether it is published in BigQuery, too."""
        return "bigquery" in self.publish

    @property
    def landed(self) -> bool:
        """Never: each tenant is copied from its server."""
        return False

    @property
    def name(self) -> str:
        """``group.table``: unique in a config."""
        return f"{self.group}.{self.table}"

    @property
    def spellings(self) -> tuple[str, ...]:
        """What a person may call it, the whole name first."""
        return self.name, self.table

    def has(self, database: str) -> bool:
        """Whether a database is one of the tenants."""
        return matches(self.databases, database) and not matches(self.left_out, database)


Mirrored: TypeAlias = TableContract | TenantTable


class Config(Section):
    """A whole ``mirrorlake.yaml``, resolved. Tables are sorted by name.

    What is read from a server (``sources``, ``tables``), what lands (``landings``,
    ``snapshots``) and what many databases have (``tenants``) are apart: nothing that queries a
    server for its table meets one that has none, or a thousand.
    """

    path: Path
    lake: LakeConfig
    ledger: LedgerConfig
    spark: SparkConfig
    privacy: PrivacyConfig
    readers: ReadersConfig = ReadersConfig()
    added: Mapping[str, Section] = {}
    """What the file says in the sections of capabilities; `section` finds one of them."""
    sources: dict[str, SourceConfig]
    tables: tuple[TableContract, ...]
    landings: Mapping[str, LandingConfig] = Field(default_factory=dict[str, LandingConfig])
    """By source; ``cluster`` is never absent, a folder's path is absolute."""
    snapshots: tuple[TableContract, ...] = ()
    """The contracts of mode ``snapshot``; their ``snapshot`` is never None."""
    tenants: tuple[TenantTable, ...] = ()
    """The tables that many databases have; apart from ``tables``, as one of them is no table of one
    server."""

    def section(self, kind: type[SectionT]) -> SectionT:
        """What the file says in a capability's section; its defaults where it says nothing."""
        return self.written_section(kind) or kind()

    def written_section(self, kind: type[SectionT]) -> SectionT | None:
        """The same of a section that has no defaults: None where the file has none."""
        return next((one for one in self.added.values() if isinstance(one, kind)), None)

    @property
    def in_bigquery(self) -> tuple[TableContract | TenantTable, ...]:
        """All tables that are published in BigQuery."""
        everything = (*self.tables, *self.snapshots, *self.tenants)
        return tuple(table for table in everything if table.in_bigquery)

    @property
    def datasets_of_tables(self) -> frozenset[str]:
        """The datasets of BigQuery that have these as deduped has them."""
        return frozenset(table.namespaces.deduped for table in self.in_bigquery)

    def chosen(self, names: Sequence[str]) -> tuple[TableContract, ...]:
        """The contracts of these names, as `table` takes them, or patterns; all without a name.

        Raises:
            ConfigError: a name is nobody's or several tables', or there is no table at all.
        """
        names = expand(names, self.tables, self.path, [*self.snapshots, *self.tenants])
        self._refuse_tenants(names)
        if not self.tables and self.snapshots:
            raise ConfigError(
                f"{self.path} has only tables that are kept by snapshots: there is no server to "
                "query",
                next_step="`mirrorlake land` takes what has landed of them, again where the ledger "
                "was lost",
            )
        if not self.tables and self.tenants:
            raise ConfigError(
                f"{self.path} has only tables of tenants, which have no windows and no days",
                next_step=FOR_TENANTS,
            )
        if not self.tables:
            raise ConfigError(
                f"{self.path} has no tables", next_step="`mirrorlake init` writes their contracts"
            )
        return tuple(self.table(name) for name in names) if names else self.tables

    def require_secrets(
        self, contracts: Iterable[TableContract], tenants: Iterable[TenantTable] = ()
    ) -> None:
        """See that every secret is set that reading these tables takes.

        Raises:
            ConfigError: some are not; all of them, one a line.
        """
        chosen = tuple(contracts)
        names = {c.source for c in chosen if not c.landed}
        names |= {name for table in tenants for name in table.sources}
        sources = [self.sources[name] for name in sorted(names)]
        wanted: list[SecretStr | None] = []
        for source in sources:
            wanted += [source.password, source.primary.password if source.primary else None]
        if any("hash" in contract.rules.values() for contract in chosen):
            wanted.append(self.privacy.hash_key)
        unset = dict.fromkeys(s for s in wanted if isinstance(s, UnsetSecret))
        if unset:
            lines = (f"{s.place}: the environment variable {s.name} is not set" for s in unset)
            names = ", ".join(s.name for s in unset)
            raise ConfigError("\n".join(lines), next_step=f"Set {names}, then try again")

    def table(self, name: str) -> TableContract:
        """The contract called ``source.db.table``, or ``db.table`` or ``table`` where only one is.

        Raises:
            ConfigError: none is called so (with the nearest name), or more than one.
        """
        found = find_named(name, self.tables, self.path)
        if found is not None:
            return found
        self._refuse_tenants([name])
        if find_named(name, self.snapshots, self.path) is not None:
            raise ConfigError(
                f"table {name!r} of {self.path} is kept by snapshots: there is no server to ask",
                next_step="`mirrorlake land` takes what has landed of it",
                table=name,
            )
        raise unknown_name(name, self.tables, self.path)

    def contract(self, name: str) -> TableContract:
        """The contract of this name, of any mode, spelled as in `table`.

        Raises:
            ConfigError: none is called so (with the nearest name), or more than one.
        """
        everything = (*self.tables, *self.snapshots)
        found = find_named(name, everything, self.path)
        if found is None:
            self._refuse_tenants([name])
            raise unknown_name(name, everything, self.path)
        return found

    def chosen_snapshots(self, names: Sequence[str]) -> tuple[TableContract, ...]:
        """The contracts of mode ``snapshot`` of these names or patterns; all without a name.

        Raises:
            ConfigError: a name is nobody's or several tables', or there is no such table at all.
        """
        names = expand(names, self.snapshots, self.path, [*self.tables, *self.tenants])
        self._refuse_tenants(names)
        if not self.snapshots:
            raise ConfigError(
                f"{self.path} has no tables of mode snapshot",
                next_step="docs/snapshots.md shows how one is written",
            )
        return tuple(self.snapshot_table(name) for name in names) if names else self.snapshots

    def tenant_table(self, name: str) -> TenantTable:
        """The table of tenants called ``group.table``, or ``table`` where only one is.

        Raises:
            ConfigError: none is called so (with the nearest name), or more than one.
        """
        found = find_named(name, self.tenants, self.path)
        if found is None:
            what, listed_by = "table of tenants", "`mirrorlake tenants` lists them"
            raise unknown_name(name, self.tenants, self.path, what, listed_by)
        return found

    def chosen_tenants(self, names: Sequence[str]) -> tuple[TenantTable, ...]:
        """The tables of tenants of these names; all without a name.

        Raises:
            ConfigError: a name is nobody's or several tables', or there is no such table at all.
        """
        if not self.tenants:
            raise ConfigError(
                f"{self.path} has no tables of tenants",
                next_step="docs/tenants.md shows how they are written",
            )
        names = expand(names, self.tenants, self.path)
        return tuple(self.tenant_table(name) for name in names) if names else self.tenants

    def named(self, names: Sequence[str]) -> list[str]:
        """These names, each pattern replaced by the names of the tables, of any mode, it means.

        Raises:
            ConfigError: a pattern means no table.
        """
        return expand(names, [*self.tables, *self.snapshots, *self.tenants], self.path)

    def split(
        self, names: Sequence[str]
    ) -> tuple[tuple[TableContract, ...], tuple[TenantTable, ...]]:
        """The contracts of these names or patterns, and the tables of tenants among them; all
        without a name.

        Raises:
            ConfigError: a name is nobody's or several tables', or there is no table at all.
        """
        names = expand(names, [*self.tables, *self.tenants], self.path, self.snapshots)
        if not names:
            return (self.chosen(()) if self.tables or not self.tenants else ()), self.tenants
        ours = [table for name in names for table in self.split_tenants([name])]
        others = [name for name in names if not self.split_tenants([name])]
        return tuple(self.table(name) for name in others), tuple(ours)

    def split_tenants(self, names: Sequence[str]) -> tuple[TenantTable, ...]:
        """The tables of tenants among these names: those that no other contract is called by.

        Raises:
            ConfigError: a name means several tables of tenants.
        """
        known = set(all_spellings(self.tenants))
        own = set(all_spellings((*self.tables, *self.snapshots)))
        return tuple(self.tenant_table(n) for n in names if n in known and n not in own)

    def _refuse_tenants(self, names: Sequence[str]) -> None:
        """See that no name is a table of tenants.

        Raises:
            ConfigError: one is.
        """
        for table in self.split_tenants(names):
            raise of_tenants(table.name)

    def snapshot_table(self, name: str) -> TableContract:
        """The contract of mode ``snapshot`` of this name, spelled as in `table`.

        Raises:
            ConfigError: none is called so (with the nearest name), or more than one.
        """
        found = find_named(name, self.snapshots, self.path)
        if found is None:
            self._refuse_tenants([name])
            raise unknown_name(name, self.snapshots, self.path)
        return found
