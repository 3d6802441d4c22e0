"""What the sources show of a table's tenants, before anything is read.

What belongs here: one look at each source. What doesn't: what follows from it
(`mirrorlake.operations.tenants`, `mirrorlake.operations.tenant_checks`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.contract import TenantTable
from mirrorlake.config.server import SourceConfig
from mirrorlake.destinations.iceberg.tables import stored_types
from mirrorlake.errors import MirrorlakeError, SourceError
from mirrorlake.ledger import TenantPlace
from mirrorlake.sources.mysql.change_stamps import ChangeStamp, read_stamps_in
from mirrorlake.sources.mysql.connect import read_clock, read_position, session
from mirrorlake.sources.mysql.introspect import read_databases, read_in_databases
from mirrorlake.sources.mysql.replica import read_reach
from mirrorlake.table.holds import refuse_held
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import raw_of, resolve_tenants
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass
class TenantSurvey:
    """What the sources show of their tenants, before anything is read."""

    plans: dict[TenantPlace, ResolvedTable] = field(
        default_factory=dict[TenantPlace, ResolvedTable]
    )
    stamps: dict[TenantPlace, ChangeStamp] = field(default_factory=dict[TenantPlace, ChangeStamp])
    clocks: dict[str, datetime] = field(default_factory=dict[str, datetime])
    servers: dict[str, str] = field(default_factory=dict[str, str])
    failed: dict[TenantPlace, MirrorlakeError] = field(
        default_factory=dict[TenantPlace, MirrorlakeError]
    )
    lost: dict[str, MirrorlakeError] = field(default_factory=dict[str, MirrorlakeError])
    """Sources that could not be looked at: nothing is known of their tenants."""


def survey_tenants(workspace: Workspace, table: TenantTable) -> TenantSurvey:
    """What the sources show of a table's tenants; a source that can't be queried is among the
    ``lost``."""
    survey = TenantSurvey()
    keys = _key_types(workspace, table)
    for name in table.sources:
        source = workspace.config.sources[name]
        try:
            refuse_held(workspace.ledger, name)
            with session(source) as connection:
                _survey_source(connection, source, table, keys, survey)
        except SourceError as error:
            survey.lost[name] = error
            logger.warning("table %s: source %s: %s", table.name, name, error)
    return survey


def _survey_source(
    connection: Connection[Any],
    source: SourceConfig,
    table: TenantTable,
    keys: Mapping[str, str],
    survey: TenantSurvey,
) -> None:
    # First: what is visible then is visible to every later query.
    moment = read_reach(connection, source).shown if source.primary else None
    clock = (moment or read_clock(connection)).replace(tzinfo=UTC)
    server = read_position(connection).server
    databases = [name for name in read_databases(connection) if table.has(name)]
    found = read_in_databases(connection, set(databases), table.table)
    resolved = resolve_tenants(table, source, found, keys)
    stamps = read_stamps_in(connection, list(found), table.table)
    survey.clocks[source.name] = clock
    survey.servers[source.name] = server
    survey.plans |= resolved.plans
    survey.failed |= resolved.refused
    survey.stamps |= {(source.name, database): stamp for database, stamp in stamps.items()}


def _key_types(workspace: Workspace, table: TenantTable) -> dict[str, str]:
    """Iceberg's types of the key's columns in the oldest version that the lake has, by name,
    in lower case."""
    wanted = {name.lower() for name in table.key}
    for version in workspace.ledger.schema_versions(table.name):
        raw = workspace.lake.load(raw_of(table, version.raw_table))
        if raw is not None:
            types = stored_types(raw)
            return {n.lower(): t.iceberg for n, t in types.items() if n.lower() in wanted}
    return {}
