"""One load of tenants: those of one schema version, read batch by batch, in one commit.

The order of things is the commit protocol's: ``created`` → ``pending`` → files → one commit with
the load's id → ``success``. A tenant that can't be read, changed while it was read, became too
small or is not what MySQL said is left out, and nothing of it is in the commit: its batch is read
again without it. What the ledger then writes of each tenant (`mirrorlake.ledger.loads.tenants`)
says which load holds its rows: rows of a load that it does not name are nobody's. So a death
between the commit and that record costs another read, and never a row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pymysql.connections import Connection

from mirrorlake.destinations.iceberg.commits.commit import delete_files
from mirrorlake.destinations.iceberg.model import LakeTable, arrow_schema
from mirrorlake.destinations.iceberg.tables.schemas import has_original
from mirrorlake.destinations.iceberg.tables.tenants import ensure_raw_tenants
from mirrorlake.errors import (
    MirrorlakeError,
    NotProved,
    ReadGivenUp,
    SchemaError,
    SourceBusy,
    SourceError,
    TableLocked,
)
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Load, TenantPlace, Window
from mirrorlake.load.chunks.plans import chunk_plans
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.chunks.runner import patiently
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.load.protocol.load_run import LoadRun, Steps
from mirrorlake.load.protocol.receipts import summed
from mirrorlake.load.protocol.verify import form_of_rows
from mirrorlake.load.tenants.batches import Batch, plan_batches
from mirrorlake.load.tenants.read import ReadBatch, find_unequal, read_batch
from mirrorlake.load.tenants.readable_tenants import find_unreadable, locked
from mirrorlake.proof.comparing.report import digest_text
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.schema.own_columns import DATABASE, SOURCE
from mirrorlake.sources.mysql.introspection.innodb_ids import InnodbNumbers, read_numbers_in
from mirrorlake.sources.mysql.introspection.introspect import read_columns
from mirrorlake.sources.mysql.reading.lock_watch import Guard
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.sources.mysql.tables import Column
from mirrorlake.table.progress import OnProgress, Pace
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.shrink import is_too_small
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

STEPS = Steps(
    *("tenants.created", "tenants.pending"),
    *("tenants.before_commit", "tenants.committed", "tenants.success"),
)
ATTEMPTS = 3


@dataclass(frozen=True)
class TenantCopy:
    """What a load holds of one tenant: its rows, and their digest as MySQL computed it in the state
    that was read, and in which form (None: it was not asked, and nobody compared them)."""

    rows: int
    digest: str | None
    form: str | None


@dataclass(frozen=True)
class TenantsLoaded:
    """What became of the tenants of one schema version.

    Attributes:
        load: the load that holds the copies; None where there is none.
        copies: of the tenants that it holds.
        failed: why it holds nothing of others.
    """

    load: Load | None
    copies: Mapping[TenantPlace, TenantCopy]
    failed: Mapping[TenantPlace, MirrorlakeError]
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0


def load_tenants(
    workspace: Workspace,
    name: str,
    plans: Sequence[ResolvedTable],
    servers: Mapping[str, str],
    before: Mapping[TenantPlace, int],
    progress: OnProgress | None = None,
    *,
    with_events: bool = False,
) -> TenantsLoaded:
    """Read these tenants, all of one schema version, and commit them together.

    Args:
        workspace: with the lease of the table of tenants.
        name: its name.
        servers: the identity of the server that must answer, by source.
        before: how many rows each tenant had, where its copy may not be far smaller now.
        with_events: whether raw is to have what is known of a log's rows, which come later.

    Raises:
        LakeError: the lake failed; nothing of this load is visible.
        CommitConflict: the raw table moved; nothing was committed.
        LeaseHeld: another run took the table over; nothing was committed.
    """
    lead = plans[0]
    needing = next((plan for plan in plans if has_original(plan.columns)), lead)
    parts = (workspace.lake, lead.raw, needing.columns, name, lead.version)
    table = ensure_raw_tenants(*parts, with_events=with_events)
    window = Window("full", None, None, datetime.now(UTC).date())
    run = LoadRun.begin(workspace, name, lead.raw, window, STEPS)
    expected = sum(plan.table.estimated_rows for plan in plans)
    pace = Pace(name, run.load.load_id, expected, progress)
    reader = _Reader(run, table, servers, before, pace)
    started = time.monotonic()
    try:
        for batch in plan_batches(plans):
            reader.take(batch)
        pace.finish()
        if not reader.copies:
            workspace.ledger.fail_load(run.load, "none of its tenants could be read")
            return TenantsLoaded(None, {}, reader.failed)
        receipt = summed(reader.receipts)
        files = {path: metrics for one in reader.receipts for path, metrics in one.metrics}
        snapshot = run.commit(receipt, files, table.location())
    except BaseException as error:
        run.give_up(error, (path for one in reader.receipts for path in one.paths))
        raise
    run.succeed(snapshot, receipt)
    seconds = time.monotonic() - started
    return TenantsLoaded(
        run.load, reader.copies, reader.failed, receipt.rows, receipt.bytes, seconds
    )


@dataclass
class _Reader:
    """Reads batch after batch; a tenant that can't be taken leaves nothing."""

    run: LoadRun
    table: LakeTable
    servers: Mapping[str, str]
    before: Mapping[TenantPlace, int]
    pace: Pace
    copies: dict[TenantPlace, TenantCopy] = field(default_factory=dict[TenantPlace, TenantCopy])
    failed: dict[TenantPlace, MirrorlakeError] = field(
        default_factory=dict[TenantPlace, MirrorlakeError]
    )
    receipts: list[ChunkReceipt] = field(default_factory=list[ChunkReceipt])
    _lost: dict[str, MirrorlakeError] = field(default_factory=dict[str, MirrorlakeError])
    _given_up: dict[str, MirrorlakeError] = field(default_factory=dict[str, MirrorlakeError])
    _numbers: int = 0

    def take(self, batch: Batch) -> None:
        """Read a batch; each of its tenants is then among the copies or the failed."""
        if not batch.plans:
            return
        source = batch.lead.source.name
        if source in self._given_up:
            self._fail(batch, self._given_up[source])
            return
        try:
            self._take_whole(batch)
        except SourceError as error:
            own = error.column or isinstance(error, ReadGivenUp | TableLocked)
            lost = error.retryable and not own
            if lost:
                # The server, not a tenant: another batch is tried once, unless it asked for rest.
                if source in self._lost or isinstance(error, SourceBusy):
                    self._given_up[source] = error
                self._lost[source] = error
            if lost or len(batch.plans) == 1:
                waited = isinstance(error, TableLocked)
                self._fail(batch, locked(batch.lead, error) if waited else error)
                return
            for half in batch.halves():
                self.take(half)

    def _take_whole(self, batch: Batch) -> None:
        plan = batch.lead
        with session(plan.source) as connection:
            unreadable = find_unreadable(connection, batch.plans)
            if unreadable:
                self._leave(batch, unreadable)
                return
            verify = plan.contract.verify
            form = form_of_rows(connection, plan, self.table) if verify else None
            chunk = self._chunk(batch, form)
            numbers = read_numbers_in(connection, batch.databases, plan.table.name)
            found = self._patiently(batch, chunk)
            bad: dict[str, MirrorlakeError] = {}
            try:
                bad = self._refused(batch, found, connection)
                # If columns changed, that is the reason to report, not what the server did for it.
                bad = _replaced(batch, numbers, connection) | bad
                if form is not None and not bad:
                    bad = self._unequal(batch, chunk, found, form)
            except BaseException:
                self._discard(found.receipt.paths)
                raise
        failpoint("tenants.written")
        if bad:
            self._discard(found.receipt.paths)
            self._leave(batch, bad)
            return
        self.receipts.append(found.receipt)
        for number, one in enumerate(batch.plans):
            digest = None if found.source is None else digest_text(found.source[number])
            place = (one.source.name, one.table.database)
            named = form.fingerprint if form else None
            self.copies[place] = TenantCopy(found.counts[number], digest, named)

    def _leave(self, batch: Batch, bad: Mapping[str, MirrorlakeError]) -> None:
        """Fail some tenants, and read the others again."""
        for plan in batch.plans:
            if plan.table.database in bad:
                place = (plan.source.name, plan.table.database)
                self.failed[place] = bad[plan.table.database]
        self.take(batch.without(bad))

    def _fail(self, batch: Batch, error: MirrorlakeError) -> None:
        for plan in batch.plans:
            self.failed[plan.source.name, plan.table.database] = error

    def _chunk(self, batch: Batch, form: RowForm | None) -> ChunkPlan:
        plan, number = batch.lead, self._numbers
        server, self._numbers = self.servers[plan.source.name], number + 1
        [chunk] = chunk_plans(plan, self.run.load, self.table, server, [""], None)
        own = pa.schema([one for one in chunk.schema if one.name not in (SOURCE, DATABASE)])
        digest = form.source_digest if form else None
        # What is measured is one table: it says nothing of a batch.
        return replace(chunk, schema=own, number=number, digest=digest, near=False, widest=())

    def _patiently(self, batch: Batch, chunk: ChunkPlan) -> ReadBatch:
        """`read_batch`, tried again where a later attempt may not fail."""
        schema, source = arrow_schema(self.table.schema()), batch.lead.source.name
        alone = (batch.lead.source, chunk.database, chunk.table, chunk.load_id)

        def read(plan: ChunkPlan) -> ReadBatch:
            if len(batch.plans) > 1:
                return read_batch(batch, plan, schema, self.pace.advance)
            with Guard(*alone) as guard:
                return read_batch(batch, plan, schema, self.pace.advance, guard.heed)

        # Which one is locked is found by smaller batches, not by waiting again.
        attempts = 1 if source in self._lost else ATTEMPTS
        found = patiently(chunk, read, attempts=attempts, at_once=(TableLocked,))
        self._lost.pop(source, None)
        return found

    def _refused(
        self, batch: Batch, found: ReadBatch, connection: Connection[Any]
    ) -> dict[str, MirrorlakeError]:
        """The tenants whose table changed while it was read, or that are far smaller than they
        were, by database."""
        bad: dict[str, MirrorlakeError] = {}
        for number, plan in enumerate(batch.plans):
            now = read_columns(connection, plan.table.database, plan.table.name)
            if _definitions(now) != _definitions(plan.table.columns):
                bad[plan.table.database] = SchemaError(
                    f"table {plan.name}: its schema changed in MySQL while it was read",
                    table=plan.name,
                    next_step="Nothing of it is visible: sync again",
                    retryable=True,
                )
                continue
            before = self.before.get((plan.source.name, plan.table.database))
            limit, rows = plan.contract.shrink_limit, found.counts[number]
            if before is not None and limit is not None and is_too_small(before, rows, limit):
                bad[plan.table.database] = _smaller(plan, before, rows, limit)
        return bad

    def _unequal(
        self, batch: Batch, chunk: ChunkPlan, found: ReadBatch, form: RowForm
    ) -> dict[str, MirrorlakeError]:
        """The tenants whose rows in the files are not what MySQL said."""
        source, spark = found.source or (), self.run.workspace.spark
        unequal = find_unequal(batch, chunk, found.receipt.paths, form, source, spark)
        return {
            batch.databases[number]: _not_proved(batch.plans[number], source[number], lake)
            for number, lake in unequal.items()
        }

    def _discard(self, paths: Sequence[str]) -> None:
        delete_files(self.run.workspace.lake, self.run.raw, paths)


def _definitions(columns: Sequence[Column]) -> list[tuple[object, ...]]:
    """What decides how columns are read."""
    return [(c.name, c.column_type, c.charset, c.collation, c.generated) for c in columns]


def _replaced(
    batch: Batch, before: Mapping[str, InnodbNumbers], connection: Connection[Any]
) -> dict[str, MirrorlakeError]:
    """The tenants whose table, or a partition of it, was put in another's place while it was read,
    by database: an exchanged partition has rows that were committed long ago."""
    now = read_numbers_in(connection, batch.databases, batch.lead.table.name)
    return {
        plan.table.database: SchemaError(
            f"table {plan.name}: while it was read, it was made again, truncated, rebuilt or "
            "partitioned otherwise, or a partition was exchanged",
            table=plan.name,
            next_step="Nothing of it is visible: sync again",
            retryable=True,
        )
        for plan in batch.plans
        if before.get(plan.table.database, {}) != now.get(plan.table.database, {})
    }


def _smaller(plan: ResolvedTable, before: int, now: int, limit: float) -> SourceError:
    return SourceError(
        f"table {plan.name}: the copy has {now:,} rows, and the last one had {before:,}: "
        f"{1 - now / before:.0%} less, and shrink_limit is {limit:.0%}. Its rows stay as they were",
        table=plan.name,
        source=plan.source.name,
        next_step="Look whether MySQL should hold so few. If it should: `mirrorlake sync` with the "
        f"table of tenants, `--tenant {plan.table.database} --accept-smaller`",
    )


def _not_proved(plan: ResolvedTable, source: Tally, lake: Tally) -> NotProved:
    moving = "" if plan.table.engine.lower() == "innodb" else f" ({plan.table.engine} has no "
    moving += "" if not moving else "snapshots: rows may have changed before they were read)"
    return NotProved(
        f"table {plan.name}: what was read is not what MySQL said it would be: {source.rows:,} "
        f"rows in MySQL and {lake.rows:,} in the lake{moving}",
        table=plan.name,
        next_step="Nothing of it is visible: sync again, and report it if it stays",
    )
