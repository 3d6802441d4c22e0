"""A lake table that tenants share, deduped or clean: how it is written, and by what it is known
again.

Tenants' rows are taken out and put in on a branch, which is counted before it is shown in one step.
Before that step the ledger is given the versions at which it may leave the table: who dies in
between left it at one of them, and a table at any other was written by somebody else, or set back.

What belongs here: writing. What doesn't: which rows, and when (`mirrorlake.merge.tenants`,
`mirrorlake.serving.tenant_clean`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import BY
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion
from mirrorlake.destinations.iceberg.model import LakeTable, column_names, history, is_rewrite
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.tables import reshape
from mirrorlake.destinations.iceberg.tables.tenants import ensure_current_tenants
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import TenantPlace
from mirrorlake.merge.reshape import NEXT
from mirrorlake.merge.staging import (
    append_rows,
    branch_sql,
    drop_stale,
    made_of,
    new_branch,
    seal,
)
from mirrorlake.merge.tenant_shapes import LISTED, places_sql
from mirrorlake.schema.own_columns import DATABASE, SOURCE
from mirrorlake.workspace import Workspace


class LayerSteps(NamedTuple):
    """The failpoints on the way of a layer."""

    branched: str
    staged: str
    marked: str
    shown: str


@dataclass(frozen=True)
class LayerChange:
    """What is written into a layer.

    Attributes:
        out: tenants whose rows are taken out, those too of which others are put in.
        whole: whether the layer is written from scratch.
        rows: SQL of the rows that are put in; None: none are.
        beside: columns that are written under other names → these; they take their own in the step
            that shows them.
        verify: is given how many rows of each tenant the branch has, of all that are taken out or,
            where the layer is written from scratch, of all; raises if that is not what it must be.
        made: by what the layer is known again, beside its versions.
    """

    out: frozenset[TenantPlace]
    whole: bool
    rows: str | None
    beside: Mapping[str, str]
    verify: Callable[[Mapping[TenantPlace, int]], None]
    made: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class TenantLayer:
    """One table that all tenants share.

    Attributes:
        workspace: with the lease of the table of tenants.
        identifier: the lake table.
        known_as: the name under which the ledger keeps by what it is known again.
    """

    workspace: Workspace
    table: TenantTable
    identifier: Identifier
    known_as: str
    steps: LayerSteps

    # --- by what it is known again ----------------------------------------------------------------

    def made(self) -> dict[str, Any] | None:
        """How it was last made, as it was recorded; None where this ledger did not make it."""
        text = self.workspace.ledger.definition(self.known_as)
        return None if text is None else json.loads(text)

    def record_made(self, heads: Iterable[int | None], made: Mapping[str, Any]) -> None:
        """Keep at which versions it may be left, and how it is made."""
        listed = [head for head in heads if head is not None]
        marks = json.dumps({"heads": listed, **made})
        self.workspace.ledger.record_definition(self.known_as, marks)

    def is_as_left(self, there: LakeTable, made: Mapping[str, Any]) -> bool:
        """Whether the table is as it was last left: nobody wrote to it since, or set it back."""
        with self.workspace.lake.translated(self.identifier):
            newest = next((s for s in history(there) if not is_rewrite(s)), None)
        return newest is not None and newest.snapshot_id in made["heads"]

    # --- writing ----------------------------------------------------------------------------------

    def ensure(
        self,
        stored: Iterable[tuple[str, str]],
        *,
        originals: bool,
        beside: Mapping[str, str],
        gone: Sequence[str] = (),
        location: str | None = None,
    ) -> None:
        """The table with every column that is written, sorted by tenant and key; without what a
        dead run left.

        Args:
            stored: name and Iceberg type of each column but the originals.
            beside: as in `LayerChange`.
            gone: columns that it loses.
            location: where a new table's files go; by its name if not given.
        """
        lake, columns = self.workspace.lake, list(stored)
        there = lake.load(self.identifier)
        left = [n for n in column_names(there.schema()) if n.startswith(NEXT)] if there else []
        if away := [*left, *gone]:
            reshape(lake, self.identifier, {}, away)
        schema = current_schema([(beside.get(n, n), kind) for n, kind in columns], originals)
        spelled = {name.lower(): name for name, _ in columns}
        key = [spelled[name.lower()] for name in self.table.key if name.lower() in spelled]
        parts = (schema, [beside.get(n, n) for n in key], self.table.write_mode, location)
        ensure_current_tenants(lake, self.identifier, *parts)

    def write(self, change: LayerChange) -> None:
        """Write a change on a branch, verify it there, and show it in one step.

        Raises:
            LakeError: Spark, the catalog or the storage failed; the layer is as it was, or changed.
            LeaseHeld: another run took the table over; nothing is visible.
        """
        lake, identifier = self.workspace.lake, self.identifier
        staged = self.stage(change)
        try:
            if change.whole:
                lake.replace_main(identifier, staged.branch, staged.expected, change.beside)
                failpoint(self.steps.shown)
                lake.drop_branch(identifier, staged.branch)
            else:
                lake.publish_branch(identifier, staged.branch, staged.expected)
        except BaseException:
            drop_stale(lake, identifier)
            raise

    def stage(self, change: LayerChange) -> StagedVersion:
        """Write a change on a branch, and verify it there; it is to be shown in one step.

        Raises:
            LakeError: Spark, the catalog or the storage failed; nothing is visible.
            LeaseHeld: another run took the table over; nothing is visible.
        """
        lake, identifier = self.workspace.lake, self.identifier
        drop_stale(lake, identifier)
        head, branch = lake.head(identifier), new_branch()
        if change.whole:
            lake.begin_branch(identifier, branch)
        else:
            lake.create_branch(identifier, branch, head)
        failpoint(self.steps.branched)
        try:
            self._stage(change, head, branch)
            failpoint(self.steps.staged)
            counted = None if change.whole else change.out
            change.verify(count_rows(self.workspace, branch_sql(identifier, branch), counted))
            flush_commits(lake.load(identifier), head, branch)
            self.workspace.check_lease()
            # Before it is shown: who dies in between left it at one of both. Where all of it is
            # written again, what it shows until then is not what it must show.
            staged = lake.branches(identifier)[branch]
            self.record_made([staged] if change.whole else [head, staged], change.made)
            failpoint(self.steps.marked)
        except BaseException:
            drop_stale(lake, identifier)
            raise
        return StagedVersion(identifier, branch, head)

    def _stage(self, change: LayerChange, head: int | None, branch: str) -> None:
        spark, target = self.workspace.spark.get(), branch_sql(self.identifier, branch)
        if change.out and not change.whole:
            spark.sql(f"DELETE FROM {target} WHERE {places_sql(change.out)}")  # noqa: S608
        if change.rows is not None:
            rows = spark.sql(change.rows)
            renamed = rows.toDF(*(change.beside.get(name, name) for name in rows.columns))
            append_rows(renamed, target, {} if change.whole else made_of(head))
        elif not change.whole:
            seal(self.workspace.lake, self.identifier, branch, {BY: "mirrorlake"} | made_of(head))


def count_rows(
    workspace: Workspace, table: str, places: Collection[TenantPlace] | None = None
) -> dict[TenantPlace, int]:
    """How many rows of each tenant a table, as Spark takes it, has.

    Args:
        places: the tenants that are counted; None: all.
    """
    where = f" WHERE {places_sql(places)}" if places and len(places) <= LISTED else ""
    counts = workspace.spark.get().sql(
        f"SELECT {SOURCE}, {DATABASE}, count(*) FROM {table}{where} GROUP BY 1, 2"  # noqa: S608
    )
    found = {(str(s), str(d)): int(n) for s, d, n in counts.collect()}
    return {place: n for place, n in found.items() if places is None or place in places}
