"""Publish: what raw has of a table's changes, to the destinations of its records.

Loads are published once they are committed, in their order. How far a destination is stands in the
ledger, and is written down behind each step: after a death the next run goes on there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TypeAlias

from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError, LeaseHeld, LedgerError, MirrorlakeError, RecordsError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Lease, Load
from mirrorlake.records.config import DestinationConfig, RecordsConfig
from mirrorlake.records.destination import BatchPublished, LoadBatch, RecordDestination
from mirrorlake.records.files import RecordFiles
from mirrorlake.records.ledger import RecordPlaces, RecordProgress
from mirrorlake.records.load_records import LoadRecords
from mirrorlake.records.pubsub import Topic
from mirrorlake.records.queue import RecordQueue
from mirrorlake.records.spool import SpoolQueue
from mirrorlake.runtime.outcomes import Outcomes
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.sources.files.layout import escape
from mirrorlake.sources.files.stores import store_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)
OnRecords: TypeAlias = Callable[[str, str, int], None]
"""Called with a table, a destination, and how many records it got so far."""


def _unwatched(_table: str, _destination: str, _records: int) -> None:
    """For who does not watch."""


@dataclass(frozen=True)
class RecordsPublished:
    """What became of one table at one destination.

    Attributes:
        table: ``source.database.table``.
        destination: its name under ``records.destinations``.
        state: ``published``, ``nothing new``, ``waiting`` (for ``every``) or ``busy`` (another run
            publishes the table's records).
        loads: how many loads were published; records: how many records they are; files: in how many
            files.
        position: of the last record, as raw has it: a GTID, or file and offset; None where no
            record had one yet.
    """

    table: str
    destination: str
    state: str
    loads: int = 0
    records: int = 0
    files: int = 0
    position: str | None = None


@dataclass(frozen=True)
class RecordsDue:
    """What a destination has not of a table.

    Attributes:
        table: ``source.database.table``.
        destination: its name under ``records.destinations``.
        through: the number of the last load that it has; 0: none that the ledger knows of.
        loads: how many are due; rows: how many rows these have in raw.
    """

    table: str
    destination: str
    through: int
    loads: int
    rows: int


def find_due(workspace: Workspace, contract: TableContract) -> list[RecordsDue]:
    """What is due of a table; nothing is written.

    Raises:
        LedgerError: the ledger can't be read.
    """
    known = RecordPlaces(workspace.ledger).of_tables([contract.name])
    found: list[RecordsDue] = []
    for name in workspace.config.section(RecordsConfig).of_table(contract):
        progress = known.get((contract.name, name))
        loads = [load for _, load in _due_loads(workspace, contract, progress)]
        through = progress.seq if progress is not None else 0
        counts = (through, len(loads), sum(map(_rows, loads)))
        found.append(RecordsDue(contract.name, name, *counts))
    return found


def publish_tables(
    workspace: Workspace,
    contracts: Sequence[TableContract],
    on_records: OnRecords = _unwatched,
    *,
    restart: bool = False,
    wait: bool = True,
) -> Outcomes[RecordsPublished]:
    """`publish_table` of several, one after the other."""
    done = Outcomes[RecordsPublished]()
    for contract in contracts:
        parts = (workspace, contract, on_records)
        published, failed = publish_table(*parts, restart=restart, wait=wait)
        done.results.extend(published)
        done.failures.extend((contract.name, error) for error in failed)
    return done


def publish_table(
    workspace: Workspace,
    contract: TableContract,
    on_records: OnRecords = _unwatched,
    *,
    restart: bool = False,
    wait: bool = True,
) -> tuple[list[RecordsPublished], list[MirrorlakeError]]:
    """Publish what is due of one table to each of its destinations; what became of it, and what
    failed. A destination that fails does not stop the others.

    Args:
        restart: whether to begin again with the table's current history. Files that are there stay.
        wait: whether ``every`` is heeded.

    Raises:
        LedgerError: the ledger can't be read or written.
    """
    chosen = workspace.config.section(RecordsConfig).of_table(contract)
    done: list[RecordsPublished] = []
    failures: list[MirrorlakeError] = []
    if not chosen:
        return done, failures
    try:
        with workspace.ledger.lease(f"records {contract.name}", workspace.run_id) as lease:
            for name, settings in chosen.items():
                one = _Publishing(workspace, contract, name, settings, lease, on_records)
                try:
                    done.append(one.run(restart=restart, wait=wait))
                except LedgerError:
                    raise
                except MirrorlakeError as error:
                    RecordPlaces(workspace.ledger).fail(contract.name, name, str(error))
                    failures.append(error)
    except LeaseHeld:
        there = {one.destination for one in done}
        left = [name for name in chosen if name not in there]
        done += [RecordsPublished(contract.name, name, "busy") for name in left]
    return done, failures


def open_destination(
    config: Config, contract: TableContract, name: str, settings: DestinationConfig
) -> RecordDestination:
    """A table's part of a destination.

    Raises:
        ConfigError: it lies in the lake.
        RecordsError: a library is not installed, or nobody is logged in.
    """
    if settings.kind == "pubsub":
        return RecordQueue(Topic(settings.to, contract.name, settings.endpoint), contract)
    place = settings.to
    if "://" not in place:
        place = str((config.path.absolute().parent / Path(place).expanduser()).resolve())
    _refuse_in_lake(config, name, place)
    if settings.kind == "spool":
        folder = "/".join(map(escape, (contract.source, contract.database, contract.table)))
        return RecordQueue(SpoolQueue(FolderStore(place), folder, contract.name), contract)
    return RecordFiles(store_of(place, settings.endpoint), settings, contract)


def _refuse_in_lake(config: Config, name: str, place: str) -> None:
    warehouse = config.lake.warehouse.removeprefix("file://").rstrip("/")
    if "://" not in warehouse:
        warehouse = str(Path(warehouse).resolve())
    if f"{place.rstrip('/')}/".startswith(f"{warehouse}/"):
        raise ConfigError(
            f"{config.path}: records.destinations.{name}.to is inside the lake ({warehouse}): "
            "maintenance would take its files for the lake's",
            next_step="Name a folder outside of lake.warehouse",
        )


class _Publishing:
    """One table's way to one destination."""

    def __init__(
        self,
        workspace: Workspace,
        contract: TableContract,
        name: str,
        settings: DestinationConfig,
        lease: Lease,
        on_records: OnRecords,
    ) -> None:
        self._workspace, self._contract, self._name = workspace, contract, name
        self._settings, self._lease, self._on_records = settings, lease, on_records
        self._places = RecordPlaces(workspace.ledger)
        self._progress = RecordProgress(contract.name, name)
        self._records, self._loads, self._files = 0, 0, 0

    def run(self, *, restart: bool, wait: bool) -> RecordsPublished:
        """Publish what is due."""
        table, ledger = self._contract.name, self._workspace.ledger
        if restart:
            self._places.forget(table, self._name)
        found = self._places.of_tables([table]).get((table, self._name))
        self._progress = found or self._progress
        loads = _due_loads(self._workspace, self._contract, found)
        if not loads:
            return self._outcome("nothing new")
        ended = self._progress.published_at
        if wait and ended is not None and ended + self._settings.every > datetime.now(UTC):
            return self._outcome("waiting")
        parts = (self._workspace.config, self._contract, self._name, self._settings)
        with closing(open_destination(*parts)) as destination:
            if not self._progress.seq:
                loads = self._without_known(loads, destination)
            self._refuse_older(loads, destination)
            records = LoadRecords(self._workspace, self._contract)
            for batch in self._batches(loads, destination.most_rows):
                ledger.check_lease(self._lease)
                if destination.most_rows and self._progress.begun < batch.last.seq:
                    self._progress = self._places.begin(self._progress, batch.last.seq)
                    failpoint("records.begun")
                self._finish(batch, destination.publish(records, batch))
        return self._outcome("published" if self._records else "nothing new")

    def _batches(
        self, loads: Sequence[tuple[Load | None, Load]], most_rows: int
    ) -> Iterator[LoadBatch]:
        begun, left = self._progress.begun, list(loads)
        while left:
            some = [left.pop(0)]
            rows = _rows(some[0][1])
            # What was begun is gone on with as it was begun: its files have the same names.
            again = some[0][1].seq <= begun
            while most_rows and left:
                following = left[0][1]
                rows += _rows(following)
                if following.seq > begun if again else rows > most_rows:
                    break
                some.append(left.pop(0))
            yield LoadBatch(
                loads=some,
                event=self._progress.event,
                copies=self._settings.copies,
                check=lambda: self._workspace.ledger.check_lease(self._lease),
                reached=self._reached,
            )

    def _without_known(
        self, loads: Sequence[tuple[Load | None, Load]], destination: RecordDestination
    ) -> list[tuple[Load | None, Load]]:
        """Those of some loads that are not there by the destination's own word; a ledger that was
        rebuilt has it from there."""
        known = destination.known()
        left = [pair for pair in loads if known.get(pair[1].seq) != pair[1].load_id]
        there = [load.seq for _, load in loads if not left or load.seq < left[0][1].seq]
        if there:
            self._progress = self._places.finish(self._progress, there[-1], 0, 0, None)
        return left

    def _refuse_older(
        self, loads: Sequence[tuple[Load | None, Load]], destination: RecordDestination
    ) -> None:
        """See that no load comes under a number that is taken there: an older copy of lake and
        ledger gives its numbers out again, and a reader that is past them passes over them."""
        newest = destination.newest() if loads else {}
        if not newest or loads[0][1].seq > max(newest):
            return
        if not all(map(self._workspace.ledger.knows, newest.values())):
            table = self._contract.name
            raise RecordsError(
                f"table {table}: destination {self._name} has records of load {max(newest)}, which "
                f"this ledger does not know: it is an older copy, or another's. Load "
                f"{loads[0][1].seq} would come behind it, and readers would pass over it",
                table=table,
                next_step="Move the table's folder there away and let its readers begin again: "
                f"`mirrorlake records {quote(table)} --restart` begins with its current history",
            )

    def _reached(self, event: int, records: int) -> None:
        self._progress = self._places.reach(self._progress, event, records)
        self._count(records)

    def _finish(self, batch: LoadBatch, done: BatchPublished) -> None:
        parts = (done.records, done.files, done.position)
        self._progress = self._places.finish(self._progress, batch.last.seq, *parts)
        self._loads += len(batch.loads)
        self._files += done.files
        self._count(done.records)

    def _count(self, records: int) -> None:
        self._records += records
        self._on_records(self._contract.name, self._name, self._records)

    def _outcome(self, state: str) -> RecordsPublished:
        counts = (self._loads, self._records, self._files) if state == "published" else (0, 0, 0)
        names = (self._contract.name, self._name, state)
        return RecordsPublished(*names, *counts, self._progress.position)


def _due_loads(
    workspace: Workspace, contract: TableContract, progress: RecordProgress | None
) -> list[tuple[Load | None, Load]]:
    """The loads of a table that a destination has not whole, each with the one before it. Where
    nothing is known of the destination: those of the table's current history.

    Raises:
        LedgerError: the ledger can't be read.
    """
    ledger, through = workspace.ledger, progress.seq if progress is not None else 0
    if not through:
        loads = ledger.successful_loads(contract.name)
    else:
        loads = ledger.successful_loads(contract.name, through - 1, ever=True)
    before = [None, *loads]
    return [pair for pair in zip(before, loads, strict=False) if pair[1].seq > through]


def _rows(load: Load) -> int:
    return load.receipt.committed if load.receipt is not None else 0
