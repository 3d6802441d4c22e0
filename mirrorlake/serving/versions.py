"""Raw over all schema versions of a table: shown by a view, or written as a table.

A view is Spark's alone. The table (``versions: table``) has the same rows in the same columns, for
every engine: a second copy of raw. Each fold brings it up to raw: what came into raw since, or left
it, is found by raw's files, written on a branch, counted, and shown in one step. The commit says
which versions of raw's tables it shows, so a run that dies leaves nothing that the next fold does
not find.

What belongs here: that table, and which of the two there is. What doesn't: which columns it has
(`mirrorlake.serving.unified`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commit import snapshot_property
from mirrorlake.destinations.iceberg.durable import flush_commits
from mirrorlake.destinations.iceberg.model import LakeTable, column_names, history, is_rewrite
from mirrorlake.destinations.iceberg.spark_errors import spark_errors
from mirrorlake.destinations.iceberg.tables import can_hold, reshape
from mirrorlake.destinations.iceberg.versions import ensure_versions_table, loads_moved
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.load.raw_files import refuse_damaged
from mirrorlake.merge.compaction import compact_if_due
from mirrorlake.merge.fold import LISTED
from mirrorlake.merge.reshape import NEXT, next_names
from mirrorlake.merge.staging import branch_sql, drop_stale, new_branch
from mirrorlake.merge.tenant_shapes import append_rows
from mirrorlake.schema.own_columns import SEQ
from mirrorlake.serving.unified import Unified, digest_of, read_unified
from mirrorlake.serving.views import drop_view, make_raw_view, purge_table
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

VERSIONS_OF: Final = "mirrorlake.versions-of"
"""Property of a table of versions: of which source table it is."""
SHOWS: Final = "mirrorlake.shows"
"""Property of its commits: what the table shows, see `Shown`."""
_MOST_LOADS: Final = 1_000
"""If more loads moved, all rows are written again: a statement can't name more of them."""


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
        text = snapshot_property(newest, SHOWS) if newest is not None else None
        if text is None:
            return None
        raw, definition, through = json.loads(text)
        return Shown(raw, definition, through)


@dataclass(frozen=True)
class _Todo:
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


def show_raw_view(workspace: Workspace, plan: ResolvedTable) -> None:
    """Show raw by the view over all versions, if the contract wants one; a table of versions in its
    place is dropped.

    Raises:
        LakeError: there is a table of that name which Mirrorlake did not make.
    """
    if plan.contract.versions == "view":
        if _ours(workspace, plan) is not None:
            purge_table(workspace, plan.raw_view)
            workspace.ledger.forget_definition(_made(plan))
        make_raw_view(workspace, plan)


def fill_versions_table(
    workspace: Workspace, plan: ResolvedTable, compared: set[str], *, again: bool = False
) -> int:
    """Bring the table of versions up to raw, if the contract wants one; how many loads were written
    or taken out. A view in its place is dropped. Nothing to do costs no Spark.

    Args:
        workspace: with the table's lease.
        compared: names of raw's files whose bytes were compared with what their loads recorded;
            those that are compared here are added.
        again: whether all rows are written again, whatever the table shows.

    Raises:
        LakeDamaged: raw has a file that is not what its load wrote; nothing was changed.
        LakeError: Spark, the catalog or the storage failed, or a table of that name is not
            Mirrorlake's; the table is as it was, or filled.
        LeaseHeld: another run took the table over; this one writes nothing more.
    """
    if plan.contract.versions != "table":
        return 0
    unified = read_unified(plan, workspace.ledger, workspace.lake)
    if unified is None:
        return 0
    drop_view(workspace, plan.raw_view)
    there = _ours(workspace, plan)
    made = Shown.of(there) if there is not None else None
    if there is not None and made is None and there.current_snapshot() is not None:
        logger.warning(
            "table %s: somebody else wrote to %s: it is made again", plan.name, plan.raw_view
        )
    loads = workspace.ledger.successful_loads(plan.name, ever=True)
    heads = {name: head for name in unified.tables if (head := _head(unified, name)) is not None}
    wanted = Shown(heads, digest_of(unified.definition), max((x.seq for x in loads), default=0))
    if made is not None and not again and (made.raw, made.definition) == (heads, wanted.definition):
        return 0
    todo = _plan(workspace, unified, None if again else made, wanted)
    named = [load for load in loads if todo.whole or load.seq in todo.seqs]
    refuse_damaged(workspace.lake, workspace.ledger, plan.contract, named, compared)
    rows = sum(load.receipt.rows if load.receipt else LISTED for load in named)
    _write(workspace, unified, there, todo, wanted, rows)
    workspace.ledger.record_definition(_made(plan), unified.definition)
    if not todo.whole:
        compact_if_due(workspace.spark.get(), workspace.lake, plan.raw_view)
    return len(named)


def forget_unreadable_versions(workspace: Workspace, plan: ResolvedTable) -> None:
    """Take a table of versions that can't be read out of the catalog, so that it can be made again.
    Its files stay, as orphans."""
    try:
        workspace.lake.load(plan.raw_view)
    except LakeDamaged:
        workspace.lake.drop(plan.raw_view)


def find_lag(workspace: Workspace, plan: ResolvedTable) -> str | None:
    """What is wrong with the table of versions, in words; None where it is the one that it must be,
    by what its newest commit says, and has as many rows as raw.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    unified = read_unified(plan, workspace.ledger, workspace.lake)
    if unified is None:
        return None
    there = _ours(workspace, plan)
    if there is None:
        return "is not there"
    made = Shown.of(there)
    if made is None:
        return "was written to by somebody else"
    if made.definition != digest_of(unified.definition):
        return "was made for other columns"
    heads = {name: head for name in unified.tables if (head := _head(unified, name)) is not None}
    if made.raw != heads:
        return None  # a load that is not folded yet
    expected = sum(workspace.lake.count_rows(raw_of(plan, name)) or 0 for name in heads)
    found = workspace.lake.count_rows(plan.raw_view) or 0
    return None if found == expected else f"has {found:,} rows, and raw {expected:,}"


def raw_of(plan: ResolvedTable, name: str) -> Identifier:
    """A raw table of a version by its name."""
    return Identifier(plan.raw.namespace, name)


def _ours(workspace: Workspace, plan: ResolvedTable) -> LakeTable | None:
    """The table of versions as the catalog has it, or None.

    Raises:
        LakeError: the table of that name is another one.
    """
    found = workspace.lake.load(plan.raw_view)
    if found is not None and found.properties.get(VERSIONS_OF) != plan.name:
        raise LakeError(
            f"table {plan.name}: lake table {plan.raw_view} is none that Mirrorlake made of it",
            table=plan.name,
            next_step="Rename or drop it: all versions of raw are shown under this name",
        )
    return found


def _head(unified: Unified, name: str) -> int | None:
    head = unified.tables[name].current_snapshot()
    return head.snapshot_id if head is not None else None


def _plan(
    workspace: Workspace, unified: Unified, made: Shown | None, wanted: Shown
) -> _Todo:
    """What is to be written so that a table which shows one thing shows another."""
    if made is None or made.raw.keys() - wanted.raw.keys():
        return _Todo(whole=True)
    if made.definition != wanted.definition:
        recorded = workspace.ledger.definition(_made(unified.plan))
        known = recorded is not None and digest_of(recorded) == made.definition
        if recorded is None or not known or not unified.keeps(recorded):
            return _Todo(whole=True)
    out: set[int] = set()
    rows: dict[str, frozenset[int]] = {}
    for name in wanted.raw:
        with workspace.lake.translated(unified.plan.name):
            moved = loads_moved(unified.tables[name], made.raw.get(name), made.through)
        if moved is None:
            return _Todo(whole=True)
        out |= moved.known
        if moved.now:
            rows[name] = moved.now
    todo = _Todo(out=frozenset(out), rows=rows)
    return todo if len(todo.seqs) <= _MOST_LOADS else _Todo(whole=True)


# --- writing --------------------------------------------------------------------------------------


def _write(
    workspace: Workspace,
    unified: Unified,
    there: LakeTable | None,
    todo: _Todo,
    wanted: Shown,
    rows: int,
) -> None:
    """Write what is to be written on a branch, count it there, and show it in one step.

    Args:
        rows: about how many are written.
    """
    lake, identifier = workspace.lake, unified.plan.raw_view
    beside = _ensure(workspace, unified, there, whole=todo.whole)
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
        _drop_gone(workspace, unified)
    else:
        lake.publish_branch(identifier, branch, head)
    failpoint("versions.shown")


def _ensure(
    workspace: Workspace, unified: Unified, there: LakeTable | None, *, whole: bool
) -> dict[str, str]:
    """The table with every column that is written; column → its name until it is shown, of those
    that must have their values as soon as they are there."""
    lake, identifier, schema = workspace.lake, unified.plan.raw_view, unified.schema
    held = {f.name: f.field_type for f in there.schema().fields} if there is not None else {}
    left = [name for name in held if name.startswith(NEXT)]  # of a run that died
    lowered = {name.lower(): name for name in unified.names}
    # To MySQL and to Spark a name in another case is the same one.
    spelled = {
        name: now for name in held if (now := lowered.get(name.lower(), name)) != name
    }
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
    ensure_versions_table(lake, identifier, schema, {VERSIONS_OF: unified.plan.name}, beside)
    return beside


def _drop_gone(workspace: Workspace, unified: Unified) -> None:
    """Take away columns that no version has by this name any more: their values are shown under
    another one."""
    table = workspace.lake.load(unified.plan.raw_view)
    there = column_names(table.schema()) if table is not None else []
    if gone := [name for name in there if name not in unified.names]:
        reshape(workspace.lake, unified.plan.raw_view, {}, gone)


def _stage(
    spark: SparkSession,
    unified: Unified,
    todo: _Todo,
    wanted: Shown,
    target: str,
    beside: Mapping[str, str],
) -> None:
    if todo.out:
        with _marked(spark, wanted):
            spark.sql(f"DELETE FROM {target} WHERE {_of(todo.out)}")  # noqa: S608
    rows = _rows(spark, unified, todo, wanted)
    if rows is not None:
        renamed = rows.toDF(*(beside.get(name, name) for name in rows.columns))
        append_rows(renamed, target, {SHOWS: wanted.text})


@contextmanager
def _marked(spark: SparkSession, wanted: Shown) -> Iterator[None]:
    """While the block runs, commits of statements say what the table shows."""
    setting = f"spark.sql.iceberg.snapshot-property.{SHOWS}"
    spark.conf.set(setting, wanted.text)
    try:
        yield
    finally:
        spark.conf.unset(setting)


def _rows(spark: SparkSession, unified: Unified, todo: _Todo, wanted: Shown) -> DataFrame | None:
    """What is put in, read from the very versions of raw that the commit will name; None: nothing,
    and nothing needs to be said of it."""
    names = wanted.raw if todo.whole else todo.rows
    selects = [
        unified.rows_sql(name, at=wanted.raw[name], seqs=todo.rows.get(name, ())) for name in names
    ]
    if selects:
        return spark.sql(" UNION ALL ".join(selects))
    if todo.out:
        return None
    first = next(iter(unified.tables))  # a commit without rows says what the table shows
    return spark.sql(f"SELECT * FROM ({unified.rows_sql(first)}) WHERE false")  # noqa: S608


def _of(seqs: frozenset[int]) -> str:
    return f"{SEQ} IN ({', '.join(map(str, sorted(seqs)))})"


def _refuse_other_counts(
    spark: SparkSession, unified: Unified, todo: _Todo, wanted: Shown, target: str
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
            next_step="Nothing of it is visible. Sync again",
        )


def _made(plan: ResolvedTable) -> str:
    """The name under which the ledger keeps by which definition the table was made."""
    return f"versions {plan.raw_view}"
