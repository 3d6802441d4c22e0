"""Snapshots that landed are taken, folded and published, in the order of their ids.

Each snapshot is whole before the next one begins. A run that dies leaves the published table as it
was, or with the snapshot in it; taking the snapshot again then changes nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.commits.heads import layers_of_table
from mirrorlake.destinations.iceberg.commits.older_versions import remove_all_files
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import (
    ConfigError,
    LandingError,
    MirrorlakeError,
    SchemaError,
    SnapshotRefused,
)
from mirrorlake.failpoints import failpoint
from mirrorlake.landing.exchanged_columns import record_landed_exchanges
from mirrorlake.landing.files.columns import LandedSchema
from mirrorlake.landing.files.land import TakenSnapshot, is_verdict, open_taken, take
from mirrorlake.landing.files.listing import Looked, look, place_of
from mirrorlake.landing.fold.contract import snapshot_table
from mirrorlake.landing.fold.fold import fold_snapshot
from mirrorlake.landing.fold.results import Folded
from mirrorlake.landing.ledger import LandedSnapshots, SnapshotRecord
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.landing.rolled_back import find_withdrawn, refuse_over_gap
from mirrorlake.merge.statements import clean_column
from mirrorlake.operations.schema_changes.recorded_contracts import record_contract
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.serving.views import is_as_written
from mirrorlake.sources.files.tasks import landing_errors
from mirrorlake.table.columns.new_columns import held_columns, remember_columns, why_held
from mirrorlake.table.columns.source_columns import SourceColumn, record_source_columns
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Arrived:
    """What became of one snapshot.

    Attributes:
        table: ``source.database.table``.
        number: the number that it was folded under: the id, or its ``id_column``.
        files: how many files it has.
        bytes: their size.
        added: rows that are new in the table.
        changed: rows that were replaced.
        left: how many of them left with their day.
        duplicates: keys that it held more than once.
        published: whether readers see a new table version.
        seconds: of the fold.
        id: as the path says it; ``number`` is what it was folded under.
        rows: its rows inside the window.
        bad: malformed records that were left out.
        strategy: how it was folded; ``same`` where nothing changed.
        removed: rows that went; ``left`` of them because their day left the window.
        missing: keys that it is the first to lack, and that are kept.
        minutes: from the first sight of its files to its publication.
    """

    table: str
    id: int
    number: int
    files: int
    bytes: int
    rows: int
    bad: int
    strategy: str
    added: int
    changed: int
    removed: int
    left: int
    missing: int
    duplicates: int
    published: bool
    minutes: float
    seconds: float


@dataclass(frozen=True)
class RefusedSnapshot:
    """A snapshot that was refused; ``code``: the error's exit code."""

    table: str
    id: int
    reason: str
    code: int


def _ignore(_: int, __: str) -> None:
    """Nobody watches."""


def look_for(workspace: Workspace, contract: TableContract, *, whole: bool = False) -> Looked:
    """What is new of a table in its landing, after what readers see of it was held against the
    ledger; see `mirrorlake.landing.files.listing`.

    Raises:
        LandingError: the landing can't be listed.
        LakeError: the lake table can't be read.
    """
    find_withdrawn(workspace.lake, workspace.ledger, contract)
    return look(place_of(workspace.config, contract), workspace.ledger, whole=whole)


def take_snapshots(
    workspace: Workspace, contract: TableContract, ids: Iterable[int]
) -> list[TakenSnapshot]:
    """Write snapshots down as landed, by id; nothing is folded.

    Raises:
        LandingError: one is not whole, or can't be read; those before it are written down.
        SchemaError: its schema is not what the contract says.
    """
    place = place_of(workspace.config, contract)
    taken: list[TakenSnapshot] = []
    for number in sorted(set(ids)):
        with _noting(workspace, contract, [number]):
            taken.append(take(place, workspace.ledger, workspace.spark.get, number))
    return taken


def fold_snapshots(
    workspace: Workspace,
    contract: TableContract,
    ids: Iterable[int],
    *,
    accept_smaller: bool = False,
) -> list[Arrived]:
    """Fold snapshots that have landed and publish each, in the order of their ids.

    Raises:
        LandingError: a file of one is gone, was written again, or holds a record that is refused.
        LakeError: readers see an older version than the last that was published, and nobody has
            decided yet what becomes of the snapshots after it.
        MirrorlakeError: see `fold_snapshot`. The published table is as the one before left it.
    """
    place = place_of(workspace.config, contract)
    chosen = set(ids)
    arrived: list[Arrived] = []
    with workspace.leased(contract) as leased:
        find_withdrawn(leased.lake, leased.ledger, contract)
        refuse_over_gap(leased.ledger, contract, chosen)
        with _noting(leased, contract, chosen):
            opened = open_taken(place, leased.ledger, chosen)
        for taken in opened:
            with _noting(leased, contract, [taken.record.id]):
                arrived.append(_fold(leased, contract, taken, accept_smaller=accept_smaller))
        if arrived:
            record_contract(leased.ledger, contract)
    return arrived


def land_table(
    workspace: Workspace,
    contract: TableContract,
    ids: Iterable[int],
    *,
    accept_smaller: Collection[int] = (),
    report: Callable[[int, str], None] = _ignore,
) -> Iterator[Arrived | RefusedSnapshot]:
    """Take each snapshot, fold and publish it, before the next one by id; yield what became of it.

    A snapshot that is refused is written down as such, and the next one is taken. Anything else
    that fails (the lake, the storage, a lease) ends the table's turn: nothing overtakes it.

    Args:
        accept_smaller: ids of snapshots that are taken though they are far smaller than the last.
        report: called with the id and what is being done with it.

    Raises:
        MirrorlakeError: what is not about one snapshot alone; see `fold_snapshots`.
    """
    # What was published before a rollback comes first: nothing is folded over its gap.
    records = LandedSnapshots(workspace.ledger).snapshots(contract.name)
    again = {r.id for r in records if r.published_at is not None}
    for number in sorted(set(ids), key=lambda n: (n not in again, n)):
        try:
            report(number, "reading its files")
            take_snapshots(workspace, contract, [number])
            report(number, "folding")
            accepted = number in accept_smaller
            (arrived,) = fold_snapshots(workspace, contract, [number], accept_smaller=accepted)
        except MirrorlakeError as error:
            if not _is_refusal(error):
                raise
            yield RefusedSnapshot(contract.name, number, str(error), error.exit_code)
        else:
            yield arrived


@contextmanager
def _noting(workspace: Workspace, contract: TableContract, ids: Collection[int]) -> Iterator[None]:
    """Write down why snapshots that stay as they are were not taken or folded, where that is about
    the table's columns or settings: `mirrorlake status` says it with their ids."""
    ledger = workspace.ledger
    try:
        yield
    except (SchemaError, ConfigError) as error:
        known = {record.id: record for record in LandedSnapshots(ledger).snapshots(contract.name)}
        notices = SnapshotNotices(ledger).notices(contract.name)
        stale = [n for n in ids if n in notices and notices[n].text != str(error)]
        SnapshotNotices(ledger).drop_notices(contract.name, stale)
        about = {n: (known[n].fingerprint, str(error)) for n in ids if n in known}
        SnapshotNotices(ledger).notice_snapshots(contract.name, about)
        raise


def _is_refusal(error: MirrorlakeError) -> bool:
    """Whether an error is about one snapshot alone."""
    return isinstance(error, SnapshotRefused) or (
        isinstance(error, LandingError) and is_verdict(error)
    )


def _fold(
    workspace: Workspace, contract: TableContract, taken: TakenSnapshot, *, accept_smaller: bool
) -> Arrived:
    begun = time.monotonic()
    table = snapshot_table(contract, taken.reading.schema)
    number = taken.record.number if taken.record.number is not None else taken.record.id
    try:
        with landing_errors(contract.name):
            taken.check_files()
            frame = taken.frame(workspace.spark.get())
            record_landed_exchanges(workspace, contract, taken.reading.schema, frame)
            folded = fold_snapshot(
                workspace.lake,
                workspace.ledger,
                table,
                frame,
                number,
                lease=workspace.held_lease(),
                accept_smaller=accept_smaller,
                before_publish=taken.check_files,
            )
    except MirrorlakeError as error:
        with _refusing(workspace, taken):
            if not isinstance(error, LandingError):
                taken.check_files()  # a file that is gone is the reason, whatever Spark made of it
            raise
    failpoint("land.folded")
    ledger = workspace.ledger
    ledger.together(
        lambda: LandedSnapshots(ledger).publish_snapshots(contract.name, [taken.record.id]),
        *(workspace.left(contract.name, *one) for one in layers_of_table(ledger, contract)),
    )
    SnapshotNotices(workspace.ledger).drop_notices(contract.name, [taken.record.id])
    make_clean_view(workspace, contract, taken.reading.schema)
    return _arrived(workspace, taken, folded, time.monotonic() - begun)


@contextmanager
def _refusing(workspace: Workspace, taken: TakenSnapshot) -> Iterator[None]:
    """Write the snapshot down as refused where the error is about it: newer ones are not kept from
    being taken."""
    try:
        yield
    except MirrorlakeError as error:
        if _is_refusal(error):
            record = taken.record
            same = _has_same_files(taken)
            LandedSnapshots(workspace.ledger).refuse_snapshot(
                record.table, record.id, str(error), dismissed=same
            )
            _drop_empty(workspace, taken.record.table)
        raise


def _drop_empty(workspace: Workspace, table: str) -> None:
    """Take a table away that no snapshot was ever published to: readers of an empty one would take
    the source for empty."""
    identifier = deduped_of(workspace.config.contract(table))
    found = workspace.lake.load(identifier)
    if found is not None and found.current_snapshot() is None:
        workspace.lake.drop(identifier)
        with workspace.lake.translated(identifier):
            remove_all_files(found)


def _has_same_files(taken: TakenSnapshot) -> bool:
    """Whether a snapshot's files are those that were written down, so that what is wrong is in
    them."""
    try:
        taken.check_files()
    except LandingError:
        return False
    return True


def _arrived(workspace: Workspace, taken: TakenSnapshot, folded: Folded, seconds: float) -> Arrived:
    record = (
        LandedSnapshots(workspace.ledger).snapshot(taken.record.table, taken.record.id)
        or taken.record
    )
    return Arrived(
        table=record.table,
        id=record.id,
        number=folded.snapshot_id,
        files=record.files,
        bytes=record.bytes,
        rows=folded.rows,
        bad=record.bad,
        strategy=folded.strategy,
        added=folded.added,
        changed=folded.changed,
        removed=folded.removed,
        left=folded.left,
        missing=folded.missing,
        duplicates=folded.duplicates,
        published=folded.published,
        minutes=round(minutes_of(record) or 0, 2),
        seconds=round(seconds, 2),
    )


def minutes_of(record: SnapshotRecord) -> float | None:
    """From the first sight of a snapshot's files to its publication; None before it."""
    if record.published_at is None:
        return None
    return (record.published_at - record.seen_at).total_seconds() / 60


def make_clean_view(workspace: Workspace, contract: TableContract, schema: LandedSchema) -> None:
    """The clean view over the rows: the columns as the contract's rules leave them, new ones held
    out until the contract names them."""
    names = [column.name for column in schema.columns]
    remember_columns(workspace.ledger, workspace.lake, contract, names)
    record_source_columns(
        workspace.ledger,
        contract,
        [
            SourceColumn(
                *(c.name, c.iceberg, c.nullable),
                original=c.has_original and c in schema.columns,
                unplaced=c.has_original and c in schema.columns,
            )
            for c in schema.everything
        ],
    )
    held = held_columns(workspace.ledger, workspace.lake, contract, names)
    rules = {name.casefold(): str(rule) for name, rule in contract.rules.items()}
    rules |= {name.casefold(): "drop" for name in held}
    shown = [
        clean_column(column.name, column.iceberg, rules.get(column.name.casefold()))
        for column in schema.columns
    ]
    clean = [*filter(None, shown)]
    columns = [f"{sql} AS {as_sql_identifier(name)}" for name, _, sql in clean]
    ruled = [c.name for c in schema.columns if c.has_original and c.name.casefold() in rules]
    if schema.has_original:
        original = as_sql_identifier(ORIGINAL)
        names = ", ".join(text_literal(name) for name in ruled)
        kept = f"filter({original}, x -> x.column NOT IN ({names}))" if ruled else original
        columns.append(f"CASE WHEN size({kept}) > 0 THEN {kept} END AS {original}")
    text = f"SELECT {', '.join(columns)} FROM {deduped_of(contract).sql}"  # noqa: S608
    view = clean_of(contract)
    name = f"view {view}"
    types = {of: kind for of, kind, _ in clean}
    known = workspace.ledger.definition(name) == text
    if known and is_as_written(workspace.lake, view, text, types):
        return
    for words in why_held(workspace.ledger, contract, held):
        logger.warning("table %s: %s", contract.name, words)
    workspace.lake.make_namespace(view.namespace)
    with spark_errors(contract.name):
        workspace.spark.get().sql(f"CREATE OR REPLACE VIEW {view.sql} AS {text}")
    workspace.ledger.record_definition(name, text)
