"""The file as it is written: one model per section, with what each field means.

The descriptions are the JSON schema's; docs/reference/configuration.md is written from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, SecretStr, model_validator

from mirrorlake.config.fields import (
    Day,
    Duration,
    Findings,
    MysqlName,
    Owner,
    Port,
    Section,
    SourceName,
    TimeZone,
)
from mirrorlake.config.landing import LandingConfig, SnapshotConfig
from mirrorlake.config.modes import Mode
from mirrorlake.config.secrets import Secret, ServerUrl
from mirrorlake.config.sections.readers import ReadersConfig
from mirrorlake.config.sections.table_findings import (
    column_findings,
    delete_findings,
    mode_findings,
)
from mirrorlake.config.sections.tenants import TenantsSection
from mirrorlake.config.server import BackOff, TlsField
from mirrorlake.config.settings import (
    BigQueryLayout,
    Clean,
    ColumnRule,
    Deletes,
    EntitySection,
    Freshness,
    LakeConfig,
    LedgerConfig,
    NamespacesSection,
    NewColumns,
    PartitionSize,
    PrivacyConfig,
    Publish,
    RepairSetting,
    SchemaPolicy,
    SparkConfig,
    VersionsAs,
    WriteMode,
)

ShrinkLimit: TypeAlias = Annotated[float, Field(gt=0, le=1)]
VERSION: Final = 1


class DefaultsConfig(Section):
    """What a table's contract has where it says nothing itself."""

    start: Day | None = None
    """The first day that is loaded; earlier days are "not asked". Not in the future (UTC)."""
    partition: PartitionSize = "day"
    """How much of a table one partition in Dagster is: an ``hour``, a ``day`` or a ``month``. The
    lake is laid out by days in any case. Full copies have days where this says ``hour``."""
    overlap: Duration = timedelta(minutes=30)
    """How far a window reaches back before the last one, where the cursor is a time."""
    overlap_keys: int = Field(default=10_000, ge=0)
    """The same for a cursor that is a key: how many keys a window reaches back."""
    settle: Duration = timedelta(hours=1)
    """How long rows may still change behind the cursor."""
    clean: Clean = "view"
    """Whether the clean layer is a ``view`` (Spark only) or a ``table`` (every engine)."""
    new_columns: NewColumns = "hide"
    """What clean does with a column that MySQL gets after a table's first load: ``hide`` holds it
    out until the contract names it, ``show`` shows it at once."""
    schema_changes: SchemaPolicy = "evolve"
    """What becomes of a table whose columns change in MySQL. ``evolve``: it follows; ``freeze``:
    columns that are added are left out, any other change stops it; ``fail``: any change stops
    it."""
    versions: VersionsAs = "view"
    """How raw is shown over all schema versions of a table: as a ``view`` (Spark only), or a
    ``table`` (every engine), which is a second copy of raw's rows."""
    freshness: Freshness | None = Freshness(
        warn_after=timedelta(hours=26), fail_after=timedelta(hours=50)
    )
    """When a table counts as late; by default after one and two missed daily runs. ``null``:
    never."""
    owners: tuple[Owner, ...] = ()
    """Who is responsible for a table: e-mail addresses, or ``team:<name>``."""
    shrink_limit: ShrinkLimit | None = 0.9
    """The share of its rows by which a ``full`` or ``snapshot`` copy may not be smaller than the
    last one, nor may it be empty: it stops before anything is committed, and is taken when a person
    says so. So do deletes that would take as many rows of another table out of the mirror, if it
    shows at least 100. ``null``: every copy is taken, and every delete."""
    repair: RepairSetting = "ask"
    """What becomes of rows that an exact check finds different: ``auto``, a scheduled check repairs
    them; ``ask``, it names the command that does; ``off``, no command repairs this table."""
    repair_limit: int = Field(default=1_000, ge=1)
    """How many rows a scheduled check may repair; if more differ, it names the command."""
    verify: bool = True
    """Whether loads are proved before anybody sees them: full copies, first loads, later windows,
    reloads and repairs. MySQL sends a hash of each row with it, and counts the rows and their keys
    by itself; what was written is read again and compared, and main moves only if all of it is
    equal. It costs the server three to five times the processor time of the read alone, and a
    second look at the window's keys: where the cursor has no index, a second scan. Where it is
    false, `mirrorlake check` is what finds a difference."""
    write_mode: WriteMode = "merge-on-read"
    """How a fold changes rows of deduped, and of a clean table. ``merge-on-read``: beside their
    files it says which rows count no more, and writes those that changed; ``copy-on-write``: it
    writes whole files again, for readers that take no notice of such deletes."""
    publish: Publish = ("lake",)
    """Where tables are published: in the ``lake``, always, and in ``bigquery``, too."""


class TableSection(Section):
    """The contract of one table."""

    mode: Mode
    """``append``: rows are only added; ``incremental``: rows change and the cursor moves;
    ``full``: a complete copy each time; ``binlog``: every change, from the server's binary log;
    ``snapshot``: complete copies that land in a folder."""
    key: tuple[MysqlName, ...] = ()
    """The columns of a unique key. Required for ``incremental``, ``binlog`` and ``snapshot``."""
    cursor: MysqlName | None = None
    """The column that moves when a row does: a time, or for ``append`` also an increasing key.
    Required for ``append`` and ``incremental``, refused for ``full`` and ``binlog``."""
    created: MysqlName | None = None
    """The column with the time a row was created: the raw day of an ``append`` table whose cursor
    is a key."""
    entity: EntitySection | None = None
    """For tables whose rows never change and share a token: all rows of a token get the first
    time of them as ``original_created_at``, by whose days the deduped table is partitioned."""
    start: Day | None = None
    """The first day that is loaded; earlier days are "not asked". Not in the future (UTC)."""
    partition: PartitionSize | None = None
    """How much of this table one partition in Dagster is: an ``hour``, a ``day`` or a ``month``.
    An ``hour`` needs a ``cursor`` or ``created`` that has one: a TIMESTAMP, or a DATETIME in UTC;
    of mode ``binlog`` it is that of the commit."""
    partitions_from: Day | None = None
    """The first day of this table's partitions in Dagster; no row is left out by it. With a
    ``start`` the later of the two counts; without either, the first day that was loaded. Not in the
    future (UTC)."""
    every: Duration | None = None
    """How long after its last request the sensor requests loads of what moved again; its source's
    ``every`` by default. Tables with the same value share a run."""
    overlap: Duration | None = None
    """How far a window reaches back before the last one, where the cursor is a time."""
    overlap_keys: int | None = Field(default=None, ge=0)
    """The same for a cursor that is a key: how many keys a window reaches back."""
    settle: Duration | None = None
    """How long rows may still change behind the cursor."""
    clean: Clean | None = None
    """Whether the clean layer is a ``view`` (Spark only) or a ``table`` (every engine)."""
    new_columns: NewColumns | None = None
    """The same for this table's columns that are added later: ``hide`` or ``show``."""
    schema_changes: SchemaPolicy | None = None
    """The same for this table: ``evolve``, ``freeze`` or ``fail``."""
    versions: VersionsAs | None = None
    """The same for this table: ``view`` or ``table``."""
    freshness: Freshness | None = None
    """When this table counts as late; ``null``: never."""
    owners: tuple[Owner, ...] | None = None
    """Who is responsible for this table: e-mail addresses, or ``team:<name>``."""
    shrink_limit: ShrinkLimit | None = None
    """The same for this table; ``null``: every copy is taken, and every delete."""
    snapshot: SnapshotConfig | None = None
    """How the table is kept by its snapshots, where its mode is ``snapshot``."""
    repair: RepairSetting | None = None
    """The same for this table: ``auto``, ``ask`` or ``off``."""
    repair_limit: int | None = Field(default=None, ge=1)
    """How many rows a scheduled check may repair; if more differ, it names the command."""
    verify: bool | None = None
    """Whether this table's loads are proved before anybody sees them."""
    deletes: Deletes | None = None
    """What becomes of rows that MySQL deleted: ``remove`` (the default); ``flag`` keeps them in
    deduped and clean with ``_mirror_deleted_at``; ``ignore`` keeps them as they are."""
    write_mode: WriteMode | None = None
    """The same for this table: ``merge-on-read`` or ``copy-on-write``."""
    publish: Publish | None = None
    """Where this table is published: ``[lake]`` or ``[lake, bigquery]``."""
    bigquery: BigQueryLayout | None = None
    """How this table comes to BigQuery, and how it is laid out there."""
    columns: dict[MysqlName, ColumnRule] = {}
    """The columns that need a rule; every other column is mirrored as it is."""

    @model_validator(mode="after")
    def _fits_its_mode(self) -> TableSection:
        found = [*mode_findings(self), *delete_findings(self), *column_findings(self)]
        if found:
            raise Findings(found)
        return self


class DatabaseSection(Section):
    """One database of a source."""

    namespaces: NamespacesSection = NamespacesSection()
    """The lake's namespaces of its tables; what is left out has its default."""
    tables: dict[MysqlName, TableSection] = {}
    """The contracts, by table name. A table that is not here is not mirrored."""


_SERVER_OR_LANDING: Final[dict[str, JsonValue]] = {
    "anyOf": [{"required": ["host", "user"]}, {"required": ["landing"]}]
}


class SourceSection(Section):
    """One MySQL server or cluster, or a landing for tables of mode ``snapshot``."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra=_SERVER_OR_LANDING)

    landing: LandingConfig | None = None
    """A folder or bucket with complete copies, in place of a server: then only this and
    ``databases`` are set."""
    host: str = Field(default="", min_length=1)
    """Name or address of the server. Required without ``landing``."""
    port: Port = 3306
    """Its TCP port."""
    user: str = Field(default="", min_length=1)
    """The account; it needs SELECT and REPLICATION CLIENT, and PROCESS helps. Required without
    ``landing``."""
    password: Secret = SecretStr("")
    """Its password, as ``${env:NAME}``. Without it: none."""
    tls: TlsField | None = None
    """``off``; ``required`` (encrypted, but no certificate is checked); or a mapping with ``ca``.
    Without it: ``off`` for a loopback address, else ``required``."""
    time_zone: TimeZone = "UTC"
    """The zone in which DATETIME cursors are written: a name like ``Europe/Berlin``, or an offset
    like ``+05:30``."""
    time_zone_of: Literal["server", "application"] = "server"
    """Whose zone that is. ``server``: the one in which the server's ``NOW()`` writes; another one
    is refused before anything is read. ``application``: the application writes its DATETIME cursors
    in that zone, and the server's zone does not matter."""
    replica: ServerUrl | None = None
    """A replica of it that is read in its place: ``mysql://user:${env:NAME}@host:port?tls=…``. The
    server above is then queried for its oldest open transaction and its position alone."""
    connections: int = Field(default=2, ge=1, le=1000)
    """How many reads of this server a process may have open at once, over all its tables."""
    rows_per_second: int | None = Field(default=None, ge=1)
    """How many rows per second all reads of a process may take from this server. Without it: no
    limit."""
    statement_seconds: int | None = Field(default=3600, ge=1, le=31_536_000)
    """How long one statement of Mirrorlake's may run; the server stops it after that. ``null``: no
    limit."""
    silence: Duration = Field(default=timedelta(minutes=5), ge=timedelta(seconds=1))
    """How long no byte may come from this server. Then a second session looks: one that is at work
    on the statement is waited for, any other connection is given up, and the read is retried."""
    every: Duration = timedelta(minutes=15)
    """How long after its last request the sensor requests loads of what moved again. A source that
    was quiet for longer is requested within a minute."""
    skip_unchanged: Duration | None = timedelta(days=1)
    """How long `mirrorlake sync` may go without reading a table that the server shows to be
    unchanged since its last load; after that it reads it whatever the server shows. ``null``: it
    always reads."""
    back_off: BackOff = BackOff()
    """When reads of this server pause."""
    databases: dict[MysqlName, DatabaseSection] = {}
    """The databases, by name."""

    @model_validator(mode="after")
    def _server_or_landing(self) -> SourceSection:
        found = list(_source_findings(self))
        if found:
            raise Findings(found)
        return self


def _source_findings(source: SourceSection) -> Iterable[tuple[str, str]]:
    written = source.model_fields_set
    if source.landing is None:
        for field in ("host", "user"):
            if field not in written:
                yield field, "is missing"
    else:
        for field in sorted(written - {"landing", "databases"}):
            yield field, f"a landing is no server: remove {field}"


def _version(value: object) -> object:
    if str(value) != str(VERSION):
        raise ValueError(f"this release reads version {VERSION} of the file, not {value}")
    return VERSION


class ConfigSections(Section):
    """``mirrorlake.yaml``."""

    version: Annotated[Literal[1], BeforeValidator(_version)]
    """The version of this file's format: 1."""
    lake: LakeConfig = LakeConfig()
    """Where the lake's tables are."""
    ledger: LedgerConfig = LedgerConfig()
    """The database of windows, loads, proofs, repairs and schema versions."""
    spark: SparkConfig = SparkConfig()
    """How a Spark session is made, or to which server it attaches."""
    privacy: PrivacyConfig = PrivacyConfig()
    """What the rules on columns need."""
    readers: ReadersConfig = ReadersConfig()
    """Engines that `mirrorlake readers` queries beside those that are installed here."""
    defaults: DefaultsConfig = DefaultsConfig()
    """What a table's contract has where it says nothing itself."""
    sources: dict[SourceName, SourceSection] = Field(min_length=1)
    """The servers, by a name of your own."""
    tenants: dict[SourceName, TenantsSection] = {}
    """Databases that hold the same tables, by a name of your own: each table is mirrored as one,
    with the tenant as a column."""

    def bigquery_of(self, source: str, database: str, table: str) -> BigQueryLayout | None:
        """What the file says of a table in BigQuery."""
        return self.sources[source].databases[database].tables[table].bigquery
