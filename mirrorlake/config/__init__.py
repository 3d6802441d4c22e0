"""``mirrorlake.yaml`` → frozen contracts.

`load_config` reads the file and gives a `Config`, or one `ConfigError` that lists every problem
with its line. Secrets come from the environment alone (``${env:NAME}``) and are shown by nothing
here.

What belongs here: what a person may write, what it means, and what is refused before any server
is queried. What doesn't: anything that opens a connection or looks into the lake.

======================  ============================================================
`yaml`                  text → plain values that remember their line
`fields`                durations, days, names and secrets: the types of single values
`server`                one server: TLS, and how much load it may be put under
`landing`               where snapshots land, and how a table is kept by them
`settings`              the lake, the ledger, Spark, privacy: used as they are written
`sections`              the rest of the file, one pydantic model per section
`contract`              one table as the engine uses it: every default filled in
`configuration`         the whole file: sections, and tables by the names people write
`resolved`              what contracts may not do to each other
`source_url`            ``mysql://user:password@host/db``, for a server without a file
`load`                  the way from the file to the contracts
======================  ============================================================
"""

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import Mirrored, TableContract, TenantTable
from mirrorlake.config.fields import format_duration, parse_duration, zone_of
from mirrorlake.config.landing import LandingConfig, SnapshotConfig
from mirrorlake.config.load import config_schema, load_config
from mirrorlake.config.modes import Mode
from mirrorlake.config.server import BackOff, SourceConfig, Tls, TlsConfig
from mirrorlake.config.settings import (
    CatalogConfig,
    Clean,
    ColumnRule,
    Freshness,
    LakeConfig,
    LedgerConfig,
    Namespaces,
    PiiRule,
    PrivacyConfig,
    SparkConfig,
    default_namespaces,
)
from mirrorlake.config.source_url import SourceUrl, parse_source_url

__all__ = [
    "BackOff",
    "CatalogConfig",
    "Clean",
    "ColumnRule",
    "Config",
    "Freshness",
    "LakeConfig",
    "LandingConfig",
    "LedgerConfig",
    "Mirrored",
    "Mode",
    "Namespaces",
    "PiiRule",
    "PrivacyConfig",
    "SnapshotConfig",
    "SourceConfig",
    "SourceUrl",
    "SparkConfig",
    "TableContract",
    "TenantTable",
    "Tls",
    "TlsConfig",
    "config_schema",
    "default_namespaces",
    "format_duration",
    "load_config",
    "parse_duration",
    "parse_source_url",
    "zone_of",
]
