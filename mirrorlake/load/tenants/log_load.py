"""One load of what a server's log says of tenants of one schema version, in one commit.

Raw gets their changes as that of a plain table does (`mirrorlake.load.following.log_rows`), each
with its tenant.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from mirrorlake.destinations.iceberg.model import arrow_schema
from mirrorlake.destinations.iceberg.tables.schemas import has_original
from mirrorlake.destinations.iceberg.tables.tenants import PARTITION, ensure_raw_tenants
from mirrorlake.errors import MirrorlakeError
from mirrorlake.ledger import Load, Window
from mirrorlake.load.chunks.chunk_task import take_in
from mirrorlake.load.chunks.plans import chunk_plans
from mirrorlake.load.chunks.row_source import OnRows, Rows
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.load.following.log_rows import LogRows
from mirrorlake.load.protocol.load_run import LoadRun
from mirrorlake.load.protocol.receipts import summed
from mirrorlake.load.tenants.read import ByBucket
from mirrorlake.schema.own_columns import DATABASE, SOURCE
from mirrorlake.sources.mysql.following.log_state import LogPlace
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.sources.mysql.sessions.connect import SourcePosition
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class TenantChanges:
    """Changes of one tenant, as they are to be loaded."""

    plan: ResolvedTable
    rows: LogRows


class UnreadableChanges(Exception):
    """The changes of one tenant can't be loaded; nothing was committed."""

    def __init__(self, plan: ResolvedTable, error: MirrorlakeError) -> None:
        super().__init__(str(error))
        self.plan, self.error = plan, error


def load_tenant_changes(
    workspace: Workspace,
    name: str,
    changes: Sequence[TenantChanges],
    place: LogPlace,
    seen: SourcePosition,
) -> Load:
    """Commit the changes of whole transactions to the raw table of these tenants.

    Args:
        workspace: with the lease of the table of tenants.
        name: its name.
        changes: of tenants of one source and one schema version.
        place: from where on the log is to be read, once they are loaded.
        seen: where the source stood.

    Raises:
        UnreadableChanges: those of one tenant can't be loaded; nothing was committed.
        CommitConflict, LakeError: nothing is visible.
        LeaseHeld: another run took the table over; nothing was committed.
    """
    lead = changes[0].plan
    columns = next((c.plan.columns for c in changes if has_original(c.plan.columns)), lead.columns)
    parts = (workspace.lake, lead.raw, columns, name, lead.version)
    table = ensure_raw_tenants(*parts, with_events=True)
    run = LoadRun.begin(workspace, name, lead.raw, Window("log", None, None, seen.clock.date()))
    paths = ()
    try:
        schema = arrow_schema(table.schema())
        [chunk] = chunk_plans(lead, run.load, table, seen.server, [""], None)
        chunk = replace(chunk, schema=_without_tenant(chunk.schema))
        files = ByBucket(
            *(chunk.storage, chunk.location, chunk.stem, schema, chunk.iceberg, PARTITION)
        )
        found = take_in(chunk, _OfTenants(changes, schema, seen), files=files).finish()
        paths = found.paths
        receipt = replace(
            summed([found]),
            hi=seen.clock.isoformat(sep=" "),
            log_place=place.to_text(),
            log_source=lead.source.name,
        )
        snapshot = run.commit(receipt, dict(found.metrics), chunk.location)
    except BaseException as error:
        run.give_up(error.error if isinstance(error, UnreadableChanges) else error, paths)
        raise
    run.succeed(snapshot, receipt)
    return replace(run.load, state="success", snapshot_id=snapshot, receipt=receipt)


@dataclass(frozen=True)
class _OfTenants:
    """The changes of several tenants, one tenant's after the other's; read once."""

    changes: Sequence[TenantChanges]
    schema: pa.Schema
    seen: SourcePosition

    def read(self, part: ChunkPlan, heed: Heed | None = None, report: OnRows | None = None) -> Rows:  # noqa: ARG002 - all is here
        """See `RowSource.read`."""
        return Rows(part, self.seen, self._batches(part))

    def _batches(self, part: ChunkPlan) -> Generator[pa.Table]:
        for one in self.changes:
            table = one.plan.table
            own = replace(part, columns=one.plan.columns, database=table.database)
            try:
                for rows in one.rows.read(own).batches:
                    yield self._with_tenant(own, rows)
            except MirrorlakeError as error:
                raise UnreadableChanges(one.plan, error) from error

    def _with_tenant(self, part: ChunkPlan, rows: pa.Table) -> pa.Table:
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        columns[SOURCE] = pa.repeat(pa.scalar(part.source.name), rows.num_rows)
        columns[DATABASE] = pa.repeat(pa.scalar(part.database), rows.num_rows)
        arrays = [columns[f.name].cast(f.type) for f in self.schema]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _without_tenant(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in (SOURCE, DATABASE)])
