"""A lost or damaged ledger, made again from what the lake says.

The commits of raw tables carry each load's id, number, window and receipt; where a commit was
expired, the live files still carry id and number. What is known of neither, windows that read no
row and failures, is lost and costs at most a range that is read once more. What a load read, where
only its files are left, is ``unknown``: it is never assumed.

What only a branch holds was never published: a load's branch that the ledger does not know is
dropped, for nobody could publish it any more. Numbers that were given out, to such loads too, are
never given out again: a layer's commit says by a number which loads it holds.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from mirrorlake.capabilities import Seam
from mirrorlake.config import Config, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import drop_branch
from mirrorlake.destinations.iceberg.commits.commit import (
    ATTEMPT,
    FOLDED,
    LOAD_ID,
    NUMBER,
    RECEIPT,
    WINDOW,
    highest_number,
)
from mirrorlake.destinations.iceberg.commits.heads import find_foreign
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.statistics import count_days, least_number
from mirrorlake.destinations.iceberg.model import (
    LakeSnapshot,
    LakeTable,
    history,
    snapshot_property,
)
from mirrorlake.destinations.iceberg.tables.integrity import layers_of
from mirrorlake.destinations.iceberg.tables.schemas import COLUMNS, OF
from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
from mirrorlake.errors import LakeDamaged
from mirrorlake.ledger import LOOKING_BACK, Ledger, Load, Receipt, Window
from mirrorlake.load.protocol.load_branches import load_branches
from mirrorlake.load.raw.raw_files import replaced_files
from mirrorlake.load.row_hashes.delta import SUFFIX
from mirrorlake.merge.reshape import mark_for_rewrite
from mirrorlake.runtime.permissions import held
from mirrorlake.schema.own_columns import SEQ
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.table.chains import UNKNOWN_DELTA

logger = logging.getLogger(__name__)
_OTHERS: Final[Seam[Callable[[Config, Ledger, Lake], object]]] = Seam("ledger rebuild")
"""What capabilities write down again of what the lake says of their own."""

_EPOCH = date(1970, 1, 1)
_OURS = re.compile(r"([0-9a-f]{32})-([0-9]+)-")
"""How the name of a load's file begins: its id and the attempt."""
_OF_DELTA = re.compile(r"[0-9a-f]{32}-[0-9]+-[0-9]{5}(r[0-9]+)?" + SUFFIX)
"""The same of a full copy that wrote what changed, with the chunk's number."""


@dataclass(frozen=True)
class Rebuilt:
    """What a rebuild found of one table.

    Attributes:
        table: ``source.db.table``.
        loads: loads that the lake holds and the ledger did not know.
        unknown: how many of them are known by their files alone: what they read is not.
        folded: loads that deduped holds.
        dropped: branches of loads that were never published.
    """

    table: str
    loads: int
    unknown: int
    folded: int
    dropped: int = 0


def set_damaged_aside(config: Config) -> Path | None:
    """Move a SQLite ledger that is no database any more out of the way; where it is now.

    None where the ledger is well, is not there, or is not a file of ours.
    """
    url = sa.make_url(config.ledger.url)
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    path = Path(url.database)
    if not path.exists() or not _is_damaged(path):
        return None
    aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    path.rename(aside)
    for suffix in ("-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + suffix))
    return aside


def _is_damaged(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(path)) as database:
            return database.execute("PRAGMA quick_check").fetchone() != ("ok",)
    except sqlite3.OperationalError:
        return False  # locked, or not readable by us: that is no damage
    except sqlite3.DatabaseError:
        return True


def rebuild_tables(
    config: Config, ledger: Ledger, contracts: Sequence[TableContract]
) -> list[Rebuilt]:
    """Write down the loads of some tables that the lake holds and the ledger does not know. Once
    none of the contract file's tables is unknown to a ledger that was lost, it is of this lake.

    Raises:
        LakeError, LeaseHeld, LedgerError: as `rebuild_table`, and as `open_lake`.
    """
    run_id = uuid.uuid4().hex[:12]
    with held(config.lake.permissions):
        lake = open_lake(config, ledger, looks_only=True, lost_ledger=True)
        done = [rebuild_table(ledger, lake, contract, run_id) for contract in contracts]
        for restore in _OTHERS:
            restore(config, ledger, lake)
    if {one.name for one in contracts} >= {one.name for one in config.tables}:
        open_lake(config, ledger, lost_ledger=True)
    return done


def rebuild_table(ledger: Ledger, lake: Lake, contract: TableContract, run_id: str) -> Rebuilt:
    """Write down every load of a table that the lake holds and the ledger does not know.

    What the ledger knows stays as it is, so doing it again changes nothing.

    Raises:
        LeaseHeld: a live run holds the table.
        LedgerError: two loads have one number.
        LakeError: the lake can't be read.
    """
    with ledger.lease(contract.name, run_id):
        tables = list(_raw_tables(lake, contract))
        found = sorted(
            (load for table in tables for load in _loads(table, contract)),
            key=lambda load: load.seq,
        )
        _forget_replaced(ledger, lake, found, contract)
        new = [load for load in found if ledger.adopt(load)]
        _adopt_first_day(ledger, lake, tables, contract)
        _adopt_versions(ledger, tables, found, contract)
        folded = _adopt_folds(ledger, lake, contract)
        ledger.skip_numbers(max(map(highest_number, _all(lake, contract)), default=0))
        dropped = sum(_drop_unknown(ledger, lake, table) for table in tables)
    if new:
        ledger.renew_identity()  # it may give out numbers that somebody remembers
    return Rebuilt(
        table=contract.name,
        loads=len(new),
        unknown=sum(load.window.kind == "unknown" for load in new),
        folded=folded,
        dropped=dropped,
    )


def _raw_tables(lake: Lake, contract: TableContract) -> Iterator[LakeTable]:
    named = re.compile(re.escape(contract.table) + "_v_[0-9a-f]{10}")
    namespace = contract.namespaces.raw
    with lake.translated(namespace):
        if not lake.catalog.namespace_exists((namespace,)):
            return
        names = [path[-1] for path in lake.catalog.list_tables((namespace,))]
    for name in names:
        table = lake.load(Identifier(namespace, name)) if named.fullmatch(name) else None
        if table is not None and table.properties.get(OF, contract.name) == contract.name:
            yield table


def _loads(table: LakeTable, contract: TableContract) -> list[Load]:
    """The loads in a raw table's history, and those that only its live files name."""
    found: dict[str, Load] = {}
    for snapshot in history(table):  # what only a branch holds was never published
        load = _of_snapshot(table, snapshot, contract)
        if load is not None:
            found[load.load_id] = load
    for load in _of_files(table, contract):
        found.setdefault(load.load_id, load)
    return list(found.values())


def _of_snapshot(table: LakeTable, snapshot: LakeSnapshot, contract: TableContract) -> Load | None:
    load_id, number, window, receipt = (
        snapshot_property(snapshot, name) for name in (LOAD_ID, NUMBER, WINDOW, RECEIPT)
    )
    if load_id is None or number is None or window is None or receipt is None:
        return None
    seen, read = Window.from_json(window), Receipt.from_json(receipt)
    hi = seen.hi if seen.kind in LOOKING_BACK else read.hi
    at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
    return Load(
        seq=int(number),
        load_id=load_id,
        attempt=int(snapshot_property(snapshot, ATTEMPT) or 1),
        table=contract.name,
        state="success",
        raw_table=table.name()[-1],
        window=Window(seen.kind, seen.lo, hi, seen.day),
        parent_snapshot=snapshot.parent_snapshot_id,
        snapshot_id=snapshot.snapshot_id,
        started_at=at,
        finished_at=at,
        receipt=read,
        error=None,
    )


def _of_files(table: LakeTable, contract: TableContract) -> Iterator[Load]:
    head = table.current_snapshot()
    for task in table.scan().plan_files() if head else ():
        named = _OURS.match(task.file.file_path.rsplit("/", 1)[-1])
        if named is None:
            # `mirrorlake check` finds it, and no fold takes it.
            logger.warning(
                "table %s: %s was written by no load", contract.name, task.file.file_path
            )
            continue
        load_id, attempt = named.groups()
        delta = _OF_DELTA.match(task.file.file_path.rsplit("/", 1)[-1]) is not None
        # All rows of a file are of one load: its lowest number is its only one.
        seq = least_number(table, task.file, SEQ)
        if seq is None or head is None:
            continue
        at = datetime.fromtimestamp(head.timestamp_ms / 1000, UTC)
        yield Load(
            seq=seq,
            load_id=load_id,
            attempt=int(attempt),
            table=contract.name,
            state="success",
            raw_table=table.name()[-1],
            window=_unknown(task.file.partition[0], UNKNOWN_DELTA if delta else None),
            parent_snapshot=None,
            # Which one is not known; the newest holds its files.
            snapshot_id=head.snapshot_id,
            started_at=at,
            finished_at=at,
            receipt=None,
            error=None,
        )


def _unknown(day: int, lo: str | None) -> Window:
    return Window("unknown", lo, None, _EPOCH + timedelta(days=day))


def _forget_replaced(
    ledger: Ledger, lake: Lake, found: Sequence[Load], contract: TableContract
) -> None:
    """What loads took out of raw that an older ledger does not know, it records as being there.
    Before they are adopted: who dies in between finds them unknown again."""
    if not ledger.raw_files(contract.name):
        return  # of a lost ledger nothing is recorded
    known = {load.load_id for load in ledger.successful_loads(contract.name, ever=True)}
    for load in found:
        # Where its own commit has expired, nothing says what it took out: there is no receipt.
        if load.load_id not in known and load.receipt is not None:
            raw = Identifier(contract.namespaces.raw, load.raw_table)
            ledger.forget_raw_files(contract.name, replaced_files(lake, raw, load.snapshot_id))


def _adopt_first_day(
    ledger: Ledger, lake: Lake, tables: Sequence[LakeTable], contract: TableContract
) -> None:
    """A load's receipt does not say which days its rows have: raw does."""
    with lake.translated(contract.name):
        days = [day for table in tables for day in count_days(table)]
    if days:
        ledger.lower_first_day(contract.name, min(days))


def _adopt_versions(
    ledger: Ledger, tables: Sequence[LakeTable], loads: Sequence[Load], contract: TableContract
) -> None:
    """Write down the versions of raw's tables, in the order in which they were last loaded: a
    version that came back is newer than those between. One without a load is older than all.

    A version that is not recorded costs a first load of its own: exact, and dear.

    Args:
        loads: those that the lake holds, by their numbers.
    """
    newest = {load.raw_table: load.seq for load in loads}
    said = [version for table in tables if (version := _version_of(table, contract)) is not None]
    loaded = sorted(
        (version for version in said if version.raw_table in newest),
        key=lambda version: newest[version.raw_table],
    )
    known = ledger.schema_versions(contract.name)
    lacking = [version for version in said if version not in known]
    if not lacking and loaded == [version for version in known if version in loaded]:
        return
    for version in (*(one for one in lacking if one not in loaded), *loaded):
        times = [load.started_at for load in loads if load.raw_table == version.raw_table]
        first = min(times, default=None)
        ledger.record_schema_version(contract.name, version, first)


def _version_of(table: LakeTable, contract: TableContract) -> SchemaVersion | None:
    """The version whose rows a raw table holds; None where it does not say."""
    columns = table.properties.get(COLUMNS)
    pairs = tuple((str(column), str(kind)) for column, kind in json.loads(columns or "[]"))
    version = SchemaVersion(contract.table, pairs)
    return version if version.raw_table == table.name()[-1] else None


def _adopt_folds(ledger: Ledger, lake: Lake, contract: TableContract) -> int:
    """What deduped and a clean table show, by the number that each of their commits carries.

    Main's newest commit says it: one on a branch was never shown, and an earlier one may have been
    written over.
    """
    folded = 0
    for layer, table in _layers(lake, contract):
        marks = (snapshot_property(s, FOLDED) for s in history(table)) if table else iter(())
        through = next((int(mark) for mark in marks if mark), 0)
        seqs = [load.seq for load in ledger.successful_loads(contract.name) if load.seq <= through]
        ledger.record_folds(contract.name, layer, seqs)
        if table is not None and (written := find_foreign(table)) is not None:
            _have_made_again(ledger, contract, layer, table, written)
        folded = len(seqs) if layer == "deduped" else folded
    return folded


def _have_made_again(
    ledger: Ledger, contract: TableContract, layer: str, table: LakeTable, written: int
) -> None:
    """Have the next fold write a layer again: no ledger says any more what it showed before."""
    logger.warning(
        "table %s: its %s table was written to by other hands (version %d): the next sync makes it "
        "again from raw",
        *(contract.name, layer, written),
    )
    mark_for_rewrite(ledger, Identifier(*table.name()[-2:]), "other hands wrote to it")


def _layers(lake: Lake, contract: TableContract) -> Iterator[tuple[str, LakeTable | None]]:
    """Deduped and clean; None where one is not there, or can't be read:
    `mirrorlake.operations.repairing.refold` makes it again."""
    for layer, identifier in layers_of(contract):
        try:
            yield layer, lake.load(identifier)
        except LakeDamaged as error:
            logger.warning("table %s: %s is taken for empty: %s", contract.name, layer, error)
            yield layer, None


def _all(lake: Lake, contract: TableContract) -> Iterator[LakeTable]:
    yield from _raw_tables(lake, contract)
    yield from (table for _, table in _layers(lake, contract) if table is not None)


def _drop_unknown(ledger: Ledger, lake: Lake, table: LakeTable) -> int:
    """Drop the branches of loads that the ledger does not know; how many there were."""
    identifier = Identifier(*table.name()[-2:])
    unknown = [
        name for name, load_id in load_branches(lake, identifier) if not ledger.knows(load_id)
    ]
    for name in unknown:
        drop_branch(lake, identifier, name)
        logger.info("lake table %s: branch %s was never published: dropped", identifier, name)
    return len(unknown)
