"""What MySQL says of tenants' rows, without reading one: their numbers and digests.

What belongs here: the server's side, batch by batch. What doesn't: the verdict
(`mirrorlake.operations.tenants.checks`), and which tenants need not be read
(`mirrorlake.operations.tenants.sync`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.errors import MirrorlakeError, SourceError, TableLocked
from mirrorlake.ledger import TenantPlace
from mirrorlake.load.chunks.select_rows import tallies_of
from mirrorlake.load.protocol.verify import form_of_rows
from mirrorlake.load.tenants.batches import Batch, digests_statement, plan_batches
from mirrorlake.load.tenants.readable_tenants import locked, wait_briefly
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.sources.mysql.sessions.connect import rows_of, session
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import FailedTenants
from mirrorlake.workspace import Workspace

_NO_LOAD: Final = "check"
"""In place of a load's id, in the comment of a statement."""


@dataclass
class TenantDigests:
    """What MySQL says of tenants, by source and database.

    Attributes:
        tallies: rows and digest.
        forms: by what form each was digested; of those too that could not be.
        failed: why others could not be.
        lost: sources that were lost meanwhile.
    """

    tallies: dict[TenantPlace, Tally] = field(default_factory=dict[TenantPlace, Tally])
    forms: dict[TenantPlace, RowForm] = field(default_factory=dict[TenantPlace, RowForm])
    failed: FailedTenants = field(default_factory=FailedTenants)
    lost: dict[str, MirrorlakeError] = field(default_factory=dict[str, MirrorlakeError])


def read_digests(workspace: Workspace, plans: Iterable[ResolvedTable]) -> TenantDigests:
    """Have MySQL count and digest the rows of these tenants; those whose version has no raw table
    are left out.

    Raises:
        LakeError: the catalog can't be read.
    """
    found = TenantDigests()
    by_source: dict[str, list[Batch]] = defaultdict(list)
    for batch in plan_batches(plans):
        by_source[batch.lead.source.name].append(batch)
    for name, batches in by_source.items():
        try:
            with session(workspace.config.sources[name]) as connection:
                for batch in batches:
                    raw = workspace.lake.load(batch.lead.raw)
                    if raw is not None:
                        form = form_of_rows(connection, batch.lead, raw)
                        _read(connection, batch, form, found)
        except SourceError as error:
            found.lost[name] = error
    return found


def _read(connection: Connection[Any], batch: Batch, form: RowForm, found: TenantDigests) -> None:
    """Digest a batch; a table that can't be read fails alone."""
    places = [(plan.source.name, plan.table.database) for plan in batch.plans]
    found.forms |= dict.fromkeys(places, form)
    try:
        [answer] = rows_of(connection, digests_statement(batch, form.source_digest, _NO_LOAD))
    except SourceError as error:
        waited = isinstance(error, TableLocked)
        if error.retryable and not waited:
            raise
        if len(places) == 1:
            found.failed[places[0]] = locked(batch.lead, error) if waited else error
            return
        if waited:
            wait_briefly(connection)
        for half in batch.halves():
            _read(connection, half, form, found)
        return
    found.tallies |= dict(zip(places, tallies_of(answer), strict=True))
