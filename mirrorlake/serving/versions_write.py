"""A table of all schema versions is written: on a branch, counted there, and shown in one step.

What belongs here: what a commit says of the table, and how it is made. What doesn't: what the table
lacks (`mirrorlake.serving.versions`), and which columns it has (`mirrorlake.serving.unified`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import (
    LakeTable,
    column_names,
    history,
    is_rewrite,
    snapshot_property,
)
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.destinations.iceberg.tables.schemas import can_hold
from mirrorlake.destinations.iceberg.tables.tables import reshape
from mirrorlake.destinations.iceberg.tables.versions import ensure_versions_table
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.merge.reshape import NEXT, next_names
from mirrorlake.merge.staging import append_rows, branch_sql, drop_stale, new_branch
from mirrorlake.schema.own_columns import SEQ
from mirrorlake.serving.unified import Unified
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSIONS_OF: Final = "mirrorlake.versions-of"
"""Property of a table of versions: of which source table it is."""
_SHOWS: Final = "mirrorlake.shows"
"""Property of its commits: what the table shows, see `Shown`."""


@dataclass(frozen=True)
class Shown:
    """What a table of versions shows, as its newest commit says.

    Attributes:
        raw: the version of each raw table, by its name; those without rows are left out.
        definition: the digest of `Unified.definition` by which its rows were made.
        through: no row is of a load with a higher number.
    """

    raw: Mapping[str, int]
    definition: str
    through: int

    @property
    def text(self) -> str:
        """As the commit's property."""
        return json.dumps([dict(self.raw), self.definition, self.through])

    @staticmethod
    def of(table: LakeTable) -> Shown | None:
        """What a table shows; None where nothing was shown, or somebody else wrote to it since."""
        newest = next((one for one in history(table) if not is_rewrite(one)), None)
        text = snapshot_property(newest, _SHOWS) if newest is not None else None
        if text is None:
            return None
        raw, definition, through = json.loads(text)
        return Shown(raw, definition, through)


@dataclass(frozen=True)
class Fill:
    """What a table of versions lacks.

    Attributes:
        whole: whether all of its rows are written again.
        out: numbers of the loads whose rows are taken out.
        rows: numbers of the loads whose rows are put in, by raw table.
    """

    whole: bool = False
    out: frozenset[int] = frozenset()
    rows: Mapping[str, frozenset[int]] = field(default_factory=dict[str, "frozenset[int]"])

    @property
    def seqs(self) -> frozenset[int]:
        """All loads that it is about; none where it is about all."""
        return self.out.union(*self.rows.values())


def raw_of(plan: ResolvedTable, name: str) -> Identifier:
    """A raw table of a version by its name."""
    return Identifier(plan.raw.namespace, name)


def write_versions(
    workspace: Workspace,
    unified: Unified,
    there: LakeTable | None,
    todo: Fill,
    wanted: Shown,
    rows: int,
    identifier: Identifier,
) -> None:
    """Write what is to be written on a branch, count it there, and show it in one step.

    Args:
        there: the table as the catalog has it.
        rows: about how many are written.
        identifier: the table's name; another one while a view has its own.

    Raises:
        LakeError: Spark, the catalog or the storage failed; the table is as it was, or filled.
        LeaseHeld: another run took the source's table over.
    """
    lake = workspace.lake
    beside = _ensure(workspace, unified, there, identifier, whole=todo.whole)
    drop_stale(lake, identifier)
    head, branch = lake.head(identifier), new_branch()
    if todo.whole or head is None:
        lake.begin_branch(identifier, branch)
    else:
        lake.create_branch(identifier, branch, head)
    failpoint("versions.branched")
    target = branch_sql(identifier, branch)
    with spark_errors(unified.plan.name), workspace.spark.suited_to(rows) as spark:
        _stage(spark, unified, todo, wanted, target, beside)
        failpoint("versions.staged")
        _refuse_other_counts(spark, unified, todo, wanted, target)
    flush_commits(lake.load(identifier), head, branch)
    workspace.check_lease()
    if todo.whole or head is None:
        lake.replace_main(identifier, branch, head, beside)
        failpoint("versions.replaced")
        lake.drop_branch(identifier, branch)
    else:
        lake.publish_branch(identifier, branch, head)
    failpoint("versions.shown")
    drop_gone(workspace, unified)


def _ensure(
    workspace: Workspace,
    unified: Unified,
    there: LakeTable | None,
    identifier: Identifier,
    *,
    whole: bool,
) -> dict[str, str]:
    """The table with every column that is written; column → its name until it is shown, of those
    that must have their values as soon as they are there."""
    lake, schema = workspace.lake, unified.schema
    held = {f.name: f.field_type for f in there.schema().fields} if there is not None else {}
    left = [name for name in held if name.startswith(NEXT)]  # of a run that died
    lowered = {name.lower(): name for name in unified.names}
    # To MySQL and to Spark a name in another case is the same one.
    spelled = {name: now for name in held if (now := lowered.get(name.lower(), name)) != name}
    if left or spelled:
        reshape(lake, identifier, spelled, left)
    held = {spelled.get(name, name): kind for name, kind in held.items()}
    wanted = {f.name: f.field_type for f in schema.fields}
    beside = next_names(
        [
            name
            for name, kind in wanted.items()
            if whole
            and held
            and (name not in held or (kind.is_primitive and not can_hold(held[name], kind)))
        ]
    )
    place = lake.location(unified.plan.raw_view)
    ensure_versions_table(lake, identifier, schema, {VERSIONS_OF: unified.plan.name}, beside, place)
    return beside


def drop_gone(workspace: Workspace, unified: Unified) -> None:
    """Take away columns that no version has by this name any more: their values are shown under
    another one. A run that died may have left some."""
    table = workspace.lake.load(unified.plan.raw_view)
    there = column_names(table.schema()) if table is not None else []
    if gone := [name for name in there if name not in unified.names]:
        reshape(workspace.lake, unified.plan.raw_view, {}, gone)


def _stage(
    spark: SparkSession,
    unified: Unified,
    todo: Fill,
    wanted: Shown,
    target: str,
    beside: Mapping[str, str],
) -> None:
    if todo.out:
        spark.sql(f"DELETE FROM {target} WHERE {_of(todo.out)}")  # noqa: S608
    rows = _rows(spark, unified, todo, wanted)
    renamed = rows.toDF(*(beside.get(name, name) for name in rows.columns))
    # Last, and also of no rows: this commit says what the table shows.
    append_rows(renamed, target, {_SHOWS: wanted.text})


def _rows(spark: SparkSession, unified: Unified, todo: Fill, wanted: Shown) -> DataFrame:
    """What is put in, read from the very versions of raw that the commit will name."""
    names = wanted.raw if todo.whole else todo.rows
    selects = [
        unified.rows_sql(name, at=wanted.raw[name], seqs=todo.rows.get(name, ())) for name in names
    ]
    if selects:
        return spark.sql(" UNION ALL ".join(selects))
    first = next(iter(unified.tables))
    return spark.sql(f"SELECT * FROM ({unified.rows_sql(first)}) WHERE false")  # noqa: S608


def _of(seqs: frozenset[int]) -> str:
    return f"{SEQ} IN ({', '.join(map(str, sorted(seqs)))})"


def _refuse_other_counts(
    spark: SparkSession, unified: Unified, todo: Fill, wanted: Shown, target: str
) -> None:
    """See that the branch has as many rows of each load as raw.

    Raises:
        LakeError: it has not; nothing is visible.
    """
    where = "" if todo.whole else f" WHERE {_of(todo.seqs)}"
    if where and not todo.seqs:
        return

    def count(rows: str) -> dict[Any, int]:
        sql = f"SELECT {SEQ}, count(*) FROM {rows}{where} GROUP BY {SEQ}"  # noqa: S608
        return {seq: int(number) for seq, number in spark.sql(sql).collect()}

    expected: dict[Any, int] = {}
    for name in wanted.raw if todo.whole else todo.rows:
        raw = f"{raw_of(unified.plan, name).sql} VERSION AS OF {wanted.raw[name]}"
        for seq, number in count(raw).items():
            expected[seq] = expected.get(seq, 0) + number
    found = count(target)
    if found != expected:
        seq = min(s for s in found.keys() | expected.keys() if found.get(s) != expected.get(s))
        raise LakeError(
            f"table {unified.plan.name}: {unified.plan.raw_view} would have "
            f"{found.get(seq, 0):,} rows of load {seq}, and raw has {expected.get(seq, 0):,}",
            table=unified.plan.name,
            next_step=f"Nothing of it is visible. `mirrorlake refold {quote(unified.plan.name)}` "
            "makes it again from raw",
        )
