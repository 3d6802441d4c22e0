"""Sections of the file that the engine uses as they are written: lake, ledger, Spark, privacy, and
what a table's contract takes over word for word.

The descriptions are the JSON schema's; docs/reference/configuration.md is written from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    WithJsonSchema,
    model_validator,
)

from mirrorlake.config.fields import (
    Duration,
    Findings,
    MysqlName,
    NamespaceName,
    Section,
    bucket_of,
    listed,
)
from mirrorlake.config.secrets import DatabaseUrl, Properties, Secret, UnsetSecret
from mirrorlake.config.spark_settings import EXACT_SETTINGS, changed_settings
from mirrorlake.runtime.permissions import HADOOP_UMASK, Permissions

Clean: TypeAlias = Literal["view", "table"]
VersionsAs: TypeAlias = Literal["view", "table"]
JsonForm: TypeAlias = Literal["text", "structure"]
Deletes: TypeAlias = Literal["remove", "flag", "ignore"]
RepairSetting: TypeAlias = Literal["off", "ask", "auto"]
PiiRule: TypeAlias = Literal["drop", "null", "hash", "mask", "show"]
Dropped: TypeAlias = Literal["keep", "remove"]
NewColumns: TypeAlias = Literal["hide", "show"]
SchemaPolicy: TypeAlias = Literal["evolve", "freeze", "fail"]
ShapePolicy: TypeAlias = Literal["evolve", "fail"]
PublishTo: TypeAlias = Literal["lake", "bigquery"]
PartitionSize: TypeAlias = Literal["hour", "day", "month"]
WriteMode: TypeAlias = Literal["merge-on-read", "copy-on-write"]
_HASH_KEY_LENGTH: Final = 16
PROJECT: Final = r"^(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]*[a-z0-9]$"
"""What the ids of Google's projects are like."""

_IN_CLOUD_STORAGE = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[^/]+)*/?")
_CUT_OR_EXPANDED = re.compile(r"[#?%*\[\]\\\x00-\x1f\x7f]")
"""What a client would cut a name at, or take for a pattern or an escape."""


def _warehouse(text: str) -> str:
    scheme = text.partition(":")[0]
    if scheme.lower() in ("gcs", "gs") and scheme != "gs":
        raise ValueError("a place in Cloud Storage is written gs://bucket/folder")
    if scheme.lower() in ("http", "https"):
        raise ValueError(
            "a warehouse is a folder or gs://bucket/folder; a REST catalog is catalog.uri"
        )
    if scheme != "gs":
        return text
    folders = text.removeprefix("gs://").rstrip("/").split("/")[1:]
    if _IN_CLOUD_STORAGE.fullmatch(text) is None or {".", ".."}.intersection(folders):
        raise ValueError("a place in Cloud Storage is written gs://bucket or gs://bucket/folder")
    if found := _CUT_OR_EXPANDED.search(text):
        raise ValueError(f"the name of a folder in Cloud Storage can't have {found[0]!r} in it")
    return text


Warehouse: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_warehouse)]


class CatalogConfig(Section):
    """The Iceberg catalog. Without it: an SQLite file ``catalog.db`` inside the warehouse."""

    uri: DatabaseUrl | None = None
    """Where the catalog is: ``sqlite:///file.db`` (relative to this file), ``postgresql://…`` or a
    REST catalog's ``https://…``. A password is written ``${env:NAME}``."""
    wait: Duration = timedelta(seconds=30)
    """How long to wait for a catalog that another writer has locked, or for a REST server's answer,
    before it is an error."""
    properties: Properties = {}
    """Further properties of PyIceberg's catalog; of a REST catalog Spark has them, too. A value may
    hold ``${env:NAME}``; one whose name says that it is a secret must."""
    auth: Literal["google"] | None = None
    """How to log in to a REST server: ``google``, by the Google Cloud account that runs
    Mirrorlake (Application Default Credentials), as the Lakehouse runtime catalog does. Without it:
    by ``properties``."""
    project: str | None = Field(default=None, pattern=PROJECT)
    """With ``auth: google``: the project that has the catalog, and that its requests are billed
    to."""
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """With ``auth: google``: what the catalog is called there. Without it, it has the name of the
    bucket of ``lake.warehouse``."""

    @property
    def is_rest(self) -> bool:
        """Whether a REST server keeps the catalog."""
        return (self.uri or "").startswith(("http:", "https:"))

    @model_validator(mode="after")
    def _google(self) -> CatalogConfig:
        found = list(_login_findings(self))
        if found:
            raise Findings(found)
        return self


def _login_findings(catalog: CatalogConfig) -> Iterable[tuple[str, str]]:
    """What is wrong with how the catalog is logged in to."""
    if catalog.auth is None:
        for field in ("project", "name"):
            if getattr(catalog, field) is not None:
                yield field, f"{field} is Google's: write auth: google beside it, or remove it"
        return
    if not catalog.is_rest:
        yield "auth", "auth: google is for a REST server: uri is its https:// address"
    elif not _ENCRYPTED.match(catalog.uri or ""):
        yield "uri", "a Google account's token goes over https:// alone"
    if catalog.project is None:
        yield "project", "auth: google needs the project that the catalog's requests are billed to"
    for name in sorted(catalog.properties):
        if name in _LOGINS or name.startswith(("rest.auth.", "auth.")):
            yield "properties", f"auth: google logs in by itself: remove {name}"


_LOGINS: Final = frozenset(
    {"token", "credential", "scope", "oauth2-server-uri", "auth", "header.Authorization"}
)
_ENCRYPTED: Final = re.compile(r"https://|http://(?:127\.0\.0\.1|localhost|\[::1\])(?:[:/]|$)")


class LakeConfig(Section):
    """Where the lake's tables are."""

    warehouse: Warehouse = ".mirrorlake/lake"
    """The folder (relative to this file) under which every table's files are, or a URI:
    ``gs://bucket/folder``."""
    catalog: CatalogConfig = CatalogConfig()
    """The Iceberg catalog. Without it: an SQLite file ``catalog.db`` inside the warehouse."""
    permissions: Permissions = "private"
    """Who on this machine may read what is written, the lake, the ledger and evidence alike:
    ``private``, its owner alone; ``group``, the owner's group too; ``open``, everybody."""

    @property
    def runtime_catalog(self) -> str | None:
        """What Google's Lakehouse runtime catalog calls the lake's catalog; None where it does not
        keep it."""
        if self.catalog.auth is None:
            return None
        return self.catalog.name or bucket_of(self.warehouse)

    @model_validator(mode="after")
    def _named(self) -> LakeConfig:
        if self.catalog.auth is not None and not self.runtime_catalog:
            message = "lake.warehouse is in no bucket that the catalog could have its name of"
            raise Findings([("catalog", f"{message}: write name")])
        return self


class LedgerConfig(Section):
    """The database of windows, loads, proofs, repairs and schema versions."""

    url: DatabaseUrl = "sqlite:///.mirrorlake/ledger.db"
    """An SQLAlchemy URL; SQLite's path is relative to this file. A password is written
    ``${env:NAME}`` and encoded for its place in the URL."""
    wait: Duration = timedelta(seconds=30)
    """How long to wait for a ledger that another writer has locked, or whose server was there and
    is gone, before it is an error; and how long such a server may send nothing before a second
    connection looks at it."""


class SparkConfig(Section):
    """How a Spark session is made, or to which server it attaches."""

    master: str = Field(default="local[2]", min_length=1)
    """Spark's master: ``local[2]``, ``spark://host:7077``, …"""
    connect: str | None = Field(default=None, pattern=r"^sc://")
    """A Spark Connect server (``sc://host:15002``) to attach to; ``master`` is then unused."""
    driver_memory: str = Field(default="2g", pattern=r"^[1-9][0-9]*[kmgt]$")
    """Memory of the driver's JVM, like ``2g``."""
    folds_from: int = Field(default=20_000, ge=0)
    """From how many rows on Spark folds: fewer, into a layer of fewer, need none. 0: all folds are
    Spark's."""
    conf: Properties = {}
    """Further Spark settings. A value may hold ``${env:NAME}``; one whose name says that it is a
    secret must. Settings on which exact values depend can't be changed."""

    @model_validator(mode="after")
    def _exact(self) -> SparkConfig:
        changed = changed_settings(self.conf)
        if changed:
            message = (
                f"{changed[0]} must stay {EXACT_SETTINGS[changed[0]]}: values in the lake would "
                "not be exact; leave it out"
            )
            raise Findings([("conf", message)])
        if HADOOP_UMASK in self.conf:
            message = f"{HADOOP_UMASK} follows lake.permissions: set that, and leave this out"
            raise Findings([("conf", message)])
        return self


class PrivacyConfig(Section):
    """What the rules on columns need."""

    hash_key: Secret | None = None
    """The key of ``pii: hash``, at least 16 characters, as ``${env:NAME}``. Required as soon as a
    column is hashed; another key gives other hashes."""

    @model_validator(mode="after")
    def _long_enough(self) -> PrivacyConfig:
        key: SecretStr | None = self.hash_key
        if isinstance(key, UnsetSecret):
            return self
        if key is not None and len(key.get_secret_value()) < _HASH_KEY_LENGTH:
            message = (
                f"a key shorter than {_HASH_KEY_LENGTH} characters can be guessed: set a longer one"
            )
            raise Findings([("hash_key", message)])
        return self


def _with_the_lake(places: tuple[PublishTo, ...]) -> tuple[PublishTo, ...]:
    if "lake" not in places or len(set(places)) != len(places):
        raise ValueError("write [lake] or [lake, bigquery]: BigQuery is loaded out of the lake")
    return places


Publish: TypeAlias = Annotated[tuple[PublishTo, ...], AfterValidator(_with_the_lake)]


class BigQueryLayout(Section):
    """How one table is laid out in BigQuery."""

    partition_by: MysqlName
    """The column by whose days the table is partitioned: a DATE, DATETIME or TIMESTAMP, and best
    one that never changes for a row. A row whose value changes is exact all the same, and costs
    more."""
    partition: Literal["day", "month"] = "day"
    """What one partition has: a ``day``, for up to 4,000 days, or a ``month``."""


class Freshness(Section):
    """How long after its last update a table's clean layer counts as late."""

    warn_after: Duration | None = None
    """A warning after this time. Without it: none. Shorter than ``fail_after``."""
    fail_after: Duration
    """A failure after this time; at least ``1m``."""

    @model_validator(mode="after")
    def _in_order(self) -> Freshness:
        minute = timedelta(minutes=1)
        if self.fail_after < minute:
            raise Findings([("fail_after", "freshness is looked at every minute: at least 1m")])
        if self.warn_after is not None and not minute <= self.warn_after < self.fail_after:
            message = "a warning comes before the failure: at least 1m, and less than fail_after"
            raise Findings([("warn_after", message)])
        return self


_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 64}
_Names: TypeAlias = Annotated[
    tuple[MysqlName, ...],
    BeforeValidator(listed),
    WithJsonSchema({"anyOf": [_NAME, {"type": "array", "items": _NAME}]}),
]


class ColumnRule(Section):
    """What happens to one column: a rule for the clean layer, or never read at all."""

    pii: PiiRule | None = None
    """In the clean layer: ``drop`` leaves the column out, ``null`` empties it, ``hash`` replaces it
    by a keyed hash (needs ``clean: table``), ``mask`` hides all but its shape, ``show`` shows it as
    it is, by a person's decision."""
    pci: Literal["never"] | None = None
    """``never``: the column is not selected from MySQL and is in no layer."""
    renamed_from: _Names = ()
    """The name that the column had before, or several, the newest first: its values of then are
    shown under its name of now. Without it, MySQL dropped one column and added another."""
    name_in_lake: MysqlName | None = Field(default=None, exclude=True)
    """What the column is called in every layer of the lake, where it can't have MySQL's name or
    shall not. The rest of the contract uses MySQL's name."""
    json_as: JsonForm = "text"
    """How raw over all schema versions shows a column that holds JSON: as the ``text`` that MySQL
    printed, or by its ``structure``: documents that are equal are one text, with sorted keys and
    without spaces."""

    @model_validator(mode="after")
    def _one_rule(self) -> ColumnRule:
        if self.pii and self.pci:
            raise Findings([("pii", "a column that is never read (pci) needs no pii rule")])
        if self.pci and self.json_as == "structure":
            raise Findings([("json_as", "a column that is never read (pci) is not shown at all")])
        if self.pci and self.name_in_lake:
            raise Findings([("name_in_lake", "a column that is never read (pci) is not there")])
        if not self.pii and not self.pci:
            rules = "write pii: drop, null, hash, mask or show, or pci: never"
            raise Findings([("pii", f"the column is named without a rule: {rules}")])
        return self


class Namespaces(Section):
    """The three namespaces that hold a database's tables."""

    raw: NamespaceName
    """Of the raw tables."""
    deduped: NamespaceName
    """Of the tables with one row per key."""
    clean: NamespaceName
    """Of what people query."""


class NamespacesSection(Section):
    """The namespaces of a database's tables, or of tenants'; what is left out has its default."""

    raw: NamespaceName | None = None
    """Of the raw tables; ``<source>_<db>__raw`` by default, of tenants ``<name>__raw``."""
    deduped: NamespaceName | None = None
    """Of the tables with one row per key; ``<source>_<db>`` by default, of tenants ``<name>``."""
    clean: NamespaceName | None = None
    """Of what people query; ``<source>_<db>__clean`` by default, of tenants ``<name>__clean``."""


class EntitySection(Section):
    """Rows that share a token: one thing, of which every change is a row of its own."""

    token: MysqlName
    """The column that all rows of one thing share: NOT NULL, and an index begins with it."""
    created: MysqlName
    """The time at which a row was created. The first of a token's times is kept as
    ``original_created_at``."""


STREAM_SUFFIX: Final = "__stream"
"""What the namespaces of views of current rows end in, after that of their layer."""


def default_namespaces(source: str, database: str) -> Namespaces:
    """The namespaces of a database for which the file names none.

    Characters that some engine can't have in a namespace become ``_``; two databases that meet
    there are refused when the file is loaded.
    """
    return namespaces_of(f"{source}_{re.sub(r'[^A-Za-z0-9_]', '_', database)}")


def namespaces_of(stem: str) -> Namespaces:
    """The namespaces whose names begin alike.

    >>> namespaces_of("shops").raw
    'shops__raw'
    """
    return Namespaces(raw=f"{stem}__raw", deduped=stem, clean=f"{stem}__clean")
