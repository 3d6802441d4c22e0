"""Upkeep of tenants' lake tables: what dead runs left is put right, what nobody needs goes.

Raw keeps the newest copy of each tenant. Copies that newer ones took the place of are written out
of it once they are more than half of its rows: so a row is rewritten once for each time that raw
doubles.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.spark_errors import spark_errors
from mirrorlake.ledger import Tenant
from mirrorlake.load.outcome import settle_loads
from mirrorlake.merge.tenants import TENANTS, listed
from mirrorlake.operations.maintain import Ages, Maintained, maintain_lake_table
from mirrorlake.operations.recover import (
    GRACE,
    Recovered,
    refuse_short_grace,
    remove_orphans,
)
from mirrorlake.schema.own_columns import DATABASE, LOAD, SOURCE
from mirrorlake.table.tenants import deduped_of, raw_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

MOST_UNUSED: Final = 0.5
"""The share of raw's rows that may be of copies which newer ones took the place of."""


def recover_tenants(
    workspace: Workspace, table: TenantTable, grace: timedelta = GRACE, *, wait: bool = True
) -> Recovered:
    """Settle the pending loads of a table of tenants; remove its orphans that are older than
    ``grace``.

    Raises:
        ConfigError: ``grace`` is too short for a lake that a Connect server writes.
        LeaseHeld: a live run holds the table.
        LakeError: the lake can't be read, or a file not be removed.
    """
    refuse_short_grace(workspace.config, grace)
    with workspace.leased(table, wait=wait):
        ledger, lake = workspace.ledger, workspace.lake
        settled = settle_loads(ledger, lake, table.name, table.namespaces.raw)
        states = {load.load_id: load.state for load in ledger.loads(table.name)}
        committed = sum(states[load.load_id] == "success" for load in settled)
        before = datetime.now(UTC) - grace
        removed = [
            size
            for identifier, _ in _tables(workspace, table)
            if (found := lake.load(identifier)) is not None
            for size in remove_orphans(lake, found, before)
        ]
    return Recovered(
        table=table.name,
        repairs=0,
        committed=committed,
        errored=len(settled) - committed,
        orphans=len(removed),
        bytes=sum(removed),
    )


def maintain_tenants(
    workspace: Workspace, table: TenantTable, ages: Ages | None = None, *, wait: bool = True
) -> list[Maintained]:
    """Write old copies out of raw, compact, expire and clean up all lake tables of tenants.

    Raises:
        ConfigError: the grace is too short for a lake that a Connect server writes.
        LeaseHeld: a live run holds the table.
        LakeError: the catalog can't be read.
    """
    ages = ages or Ages()
    refuse_short_grace(workspace.config, ages.grace)
    with workspace.leased(table, wait=wait) as leased:
        settle_loads(leased.ledger, leased.lake, table.name, table.namespaces.raw)
        tenants = list(leased.ledger.tenants(table.name).values())
        found: list[Maintained] = []
        for identifier, layer in _tables(leased, table):
            there = leased.lake.load(identifier)
            if there is None:
                continue
            leased.check_lease()
            if layer == "raw":
                _drop_old_copies(leased, table, identifier, there, tenants)
            found.append(maintain_lake_table(leased, identifier, layer, ages))
        return found


def _tables(workspace: Workspace, table: TenantTable) -> Iterator[tuple[Identifier, str]]:
    for version in workspace.ledger.schema_versions(table.name):
        yield raw_of(table, version.raw_table), "raw"
    yield deduped_of(table), "deduped"


def _drop_old_copies(
    workspace: Workspace,
    table: TenantTable,
    identifier: Identifier,
    raw: LakeTable,
    tenants: list[Tenant],
) -> None:
    """Write one raw table again with the newest copies alone, if enough of it is older."""
    mine = [t for t in tenants if t.load_id and identifier.name.endswith(f"_v_{t.version}")]
    rows = workspace.lake.count_rows(identifier) or 0
    used = sum(tenant.rows or 0 for tenant in mine)
    if rows - used <= MOST_UNUSED * rows:
        return
    head = workspace.lake.head(identifier)
    spark = workspace.spark.get()
    with spark_errors(str(identifier)), listed(spark, mine):
        kept = spark.sql(
            f"SELECT * FROM {identifier.sql} LEFT SEMI JOIN {TENANTS} m ON {SOURCE} = m.source"  # noqa: S608
            f" AND {DATABASE} = m.database_name AND {LOAD} = m.load_id"
        )
