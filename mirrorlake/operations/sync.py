"""Sync: one table's whole chain, once. The face and the command line both call this."""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import Config, TableContract
from mirrorlake.destinations.iceberg.catalog import Identifier, Lake
from mirrorlake.destinations.iceberg.spark import LazySpark
from mirrorlake.errors import (
    LedgerError,
    MirrorlakeError,
    ReadGivenUp,
    SchemaError,
    SourceError,
    SourceHeld,
)
from mirrorlake.ledger import Lease, Ledger, Load
from mirrorlake.ledger.waiting import Waiting
from mirrorlake.load.outcome import settle_loads
from mirrorlake.load.protocol import Loading, load_window
from mirrorlake.load.receipts import with_waited
from mirrorlake.merge.current_rows import Folding
from mirrorlake.merge.statements import check_rules
from mirrorlake.operations.fold import fold_table
from mirrorlake.operations.results import SyncResult, result_of
from mirrorlake.operations.status import TableStatus, status_of
from mirrorlake.runtime.permissions import hold
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.sources.mysql.connect import read_position, session
from mirrorlake.sources.mysql.introspect import read_contracted
from mirrorlake.sources.mysql.open_writes import NOTHING_OPEN
from mirrorlake.sources.mysql.replica import read_reach
from mirrorlake.sources.mysql.zones import WALL_TIMES, refuse_other_zone
from mirrorlake.table.continuity import mark_silent_changes, plan_course
from mirrorlake.table.hash_key import refuse_other_hash_key
from mirrorlake.table.meaning import refuse_changed
from mirrorlake.table.new_columns import held_columns, held_words, remember_columns
from mirrorlake.table.progress import Report
from mirrorlake.table.resolve import TablePlan, by_time, resolve_contract
from mirrorlake.table.windows import plan_reload, plan_window, set_back

logger = logging.getLogger(__name__)

ATTEMPTS = 4
GIVEN_UP_SECONDS = 2.0
"""How long a load that gave way waits before it tries again; twice as long each time."""


class Engine:
    """The engine over one config: lake and ledger opened, Spark not before it is needed.

    Raises:
        LakeError: the lake can't be opened.
        LedgerError: the ledger can't be opened.
    """

    def __init__(
        self, config: Config, run_id: str | None = None, spark: LazySpark | None = None
    ) -> None:
        self.config = config
        self.run_id = run_id or uuid.uuid4().hex[:12]
        self._release = hold(config.lake.permissions)
        try:
            self.lake = Lake(config.lake)
            self.ledger = Ledger(config.ledger.url, config.ledger.wait)
        except BaseException:
            self._release()
            raise
        # A session that was given is its giver's to stop; it must be over the same lake.
        self._owns_spark = spark is None
        self.spark = spark or LazySpark(config.spark, self.lake)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the Spark session, if this engine made one, and give the process its umask back."""
        try:
            if self._owns_spark:
                self.spark.stop()
        finally:
            self._release()

    def plan(
        self, contract: TableContract, connection: Connection[Any], *, any_hash_key: bool = False
    ) -> TablePlan:
        """The contract resolved against the server, refused if it can't be kept; nothing is
        written.

        Args:
            any_hash_key: whether the clean table may have been hashed under another key: for who
                rewrites it.
        """
        source = self.config.sources[contract.source]
        table = read_contracted(self.config, contract, connection)
        plan = resolve_contract(self.config, contract, table)
        check_rules(plan, self.config.privacy.hash_key)
        if not any_hash_key:
            refuse_other_hash_key(plan, self.ledger, self.config.privacy.hash_key)
        if plan.cursor is not None and plan.cursor.data_type in WALL_TIMES:
            refuse_other_zone(connection, source, plan.name, plan.cursor.name)
        names = [column.name for column in plan.table.columns]
        return replace(plan, held=held_columns(self.ledger, self.lake, contract, names))

    def sync(
        self,
        contract: TableContract,
        progress: Report | None = None,
        *,
        accept_smaller: bool = False,
    ) -> SyncResult:
        """Load the next window of a table and fold it: raw, then deduped, then clean.

        Whatever a dead run left is put right first. A failure leaves every layer as it was, or a
        step further; the next sync goes on from there. ``accept_smaller`` takes a full copy that is
        far smaller than the last one.

        Raises:
            MirrorlakeError: see the errors of planning, loading and folding.
        """
        return self._chain(contract, progress, fold=True, accept_smaller=accept_smaller)

    def load(
        self,
        contract: TableContract,
        progress: Report | None = None,
        *,
        accept_smaller: bool = False,
    ) -> SyncResult:
        """`sync` without its fold: only raw moves."""
        return self._chain(contract, progress, fold=False, accept_smaller=accept_smaller)

    def reload(
        self, contract: TableContract, first: date, last: date, progress: Report | None = None
    ) -> SyncResult:
        """Load the raw days ``first`` to ``last``, both included, again; only raw moves.

        What small windows read of these days is replaced in one commit, and keys that have left
        them are looked up: the newer row is written, or a tombstone. A day that was reloaded
        before is only added to. A table that was never loaded, or has a new column, gets its first
        load instead, which reads these days too.

        Raises:
            ConfigError: these days can't be loaded again: mode full, before the table's start, in
                the future, or without an index that leads to them.
            MirrorlakeError: see the errors of planning and loading.
        """
        return self._chain(contract, progress, fold=False, days=(first, last))

    def fold(self, contract: TableContract) -> int:
        """Fold every load that deduped and clean don't hold yet; how many there were.

        Raises:
            MirrorlakeError: see the errors of planning and folding.
        """
        source = self.config.sources[contract.source]
        with session(source, contract.database) as connection:
            plan = self.plan(contract, connection)
            with self.lease(contract) as lease:
                self._settle(contract)
                self._refuse_unloaded(plan)
                return len(fold_table(plan, self._folding(lease)))

    def _chain(
        self,
        contract: TableContract,
        progress: Report | None,
        *,
        fold: bool,
        days: tuple[date, date] | None = None,
        accept_smaller: bool = False,
    ) -> SyncResult:
        self.refuse_held(contract.source)
        began = datetime.now(UTC)
        try:
            return self._run_chain(contract, progress, fold, days, accept_smaller)
        except LedgerError:
            raise  # held by another run, or nowhere to write it down
        except MirrorlakeError as error:
            self._record_refusal(contract, began, error)
            raise

    def _record_refusal(
        self, contract: TableContract, began: datetime, error: MirrorlakeError
    ) -> None:
        """Keep what stopped a table before a load of it began: a load keeps its own error."""
        last = self.ledger.last_load(contract.name)
        if last is None or last.started_at < began:
            self.ledger.record_refusal(contract.name, str(error), passing=error.retryable)

    def _run_chain(
        self,
        contract: TableContract,
        progress: Report | None,
        fold: bool,
        days: tuple[date, date] | None,
        accept_smaller: bool,
    ) -> SyncResult:
        started = time.monotonic()
        source = self.config.sources[contract.source]
        with session(source, contract.database) as connection:
            plan = self.plan(contract, connection)
            with self.lease(contract) as lease:
                loading = Loading(
                    *(self.ledger, self.lake, self.spark, lease, self.run_id, progress),
                    accept_smaller=accept_smaller,
                )
                settled = self._settle(contract)
                plan, loads = self._load_again(connection, plan, loading, days)
                folded = fold_table(plan, self._folding(lease)) if fold else ()
        return result_of(contract, loads, settled, len(folded), time.monotonic() - started)

    def refuse_held(self, source: str) -> None:
        """See that nobody asked us to leave a source alone.

        Raises:
            SourceHeld: somebody did, and until when.
        """
        held = self.ledger.held(source)
        if held is not None:
            why = f" ({held.reason})" if held.reason else ""
            raise SourceHeld(
                f"source {source} is held until {held.until:%Y-%m-%d %H:%M} UTC{why}",
                source=source,
                next_step="What it changes is read afterwards; "
                f"`mirrorlake hold {source} --release` ends it",
            )

    def _settle(self, contract: TableContract) -> int:
        namespace = contract.namespaces.raw
        return len(settle_loads(self.ledger, self.lake, contract.name, namespace))

    def lease(self, contract: TableContract) -> Any:
        """The table's lease; a holder that is about to finish is waited for, as long as for a
        lock."""
        deadline = time.monotonic() + self.config.ledger.wait.total_seconds()
        return Waiting(lambda: self.ledger.lease(contract.name, self.run_id), deadline)

    def _folding(self, lease: Lease) -> Folding:
        return Folding(self.ledger, self.lake, self.spark, self.config.privacy.hash_key, lease)

    def _load_again(
        self,
        connection: Connection[Any],
        plan: TablePlan,
        loading: Loading,
        days: tuple[date, date] | None,
    ) -> tuple[TablePlan, list[Load]]:
        """`_load`, tried again where it gave way to a change of its table: planned anew then."""
        for number in range(ATTEMPTS):
            try:
                if number:
                    plan = self.plan(plan.contract, connection)
                return plan, self._load(connection, plan, loading, days)
            except (ReadGivenUp, SchemaError) as error:
                gave_way = isinstance(error, ReadGivenUp) or number > 0
                if not gave_way or not error.retryable or number + 1 == ATTEMPTS:
                    raise
                pause = GIVEN_UP_SECONDS * 2**number
                logger.warning("%s Tried again in %g s", error, pause)
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _load(
        self,
        connection: Connection[Any],
        plan: TablePlan,
        loading: Loading,
        days: tuple[date, date] | None,
    ) -> list[Load]:
        # Before anything is read: what opens later writes with later clocks.
        told = by_time(plan) or plan.source.primary is not None
        reach = read_reach(connection, plan.source) if told else None
        seen = read_position(connection)
        self._refuse_other_server(plan, seen.server)
        course = plan_course(connection, plan, self.ledger, seen.server)
        fresh = self._check_version(plan, elsewhere=course.elsewhere)
        mark_silent_changes(plan, self.ledger, seen.server)
        # What was read from another server is read anew, as a whole, before anything goes on.
        anew = fresh or course.whole or self.ledger.unproved(plan.name) is not None
        last = None if anew else self.ledger.last_load(plan.name, "success", moving=True)
        if days is not None and (last is not None or plan.contract.mode == "full"):
            loads = self.ledger.successful_loads(plan.name)
            windows = plan_reload(plan, *days, seen.clock, loads)
        else:
            ahead = reach.ahead if reach else None
            _tell_of_set_back(plan, set_back(last, ahead))
            windows = (plan_window(plan, last, seen.clock, ahead),)
        names = [exact.name for exact in plan.columns]
        remember_columns(self.ledger, self.lake, plan.contract, names)
        if fresh and plan.held:
            logger.warning("table %s: %s", plan.name, held_words(plan.held))
        if fresh:
            self.ledger.record_schema_version(plan.name, plan.version)
        loading = replace(loading, server=seen.server, course=course)
        if reach is not None:
            found = with_waited(reach.open, last) if reach.open else NOTHING_OPEN
            loading = replace(
                loading, open_writes=found, shown=reach.shown, clock_ahead=reach.ahead
            )
        return [load_window(connection, plan, window, loading) for window in windows]

    def _refuse_other_server(self, plan: TablePlan, server: str) -> None:
        newest = self.ledger.last_load(plan.name, "success")
        mark = self.ledger.unproved(plan.name)
        if mark is not None and mark.server == server:
            return  # a person took it for the source
        if newest and newest.receipt and newest.receipt.server != server:
            raise SourceError(
                f"source {plan.source.name} is now server {server}; table {plan.name} "
                "was read from "
                f"{newest.receipt.server}",
                source=plan.source.name,
                table=plan.name,
                next_step="Two servers' answers are not one history: point the contract back, or, "
                f"if this is the source now, run `mirrorlake accept {plan.source.name}`: every "
                "table is read anew",
            )

    def _check_version(self, plan: TablePlan, *, elsewhere: bool = False) -> bool:
        """Whether the plan's schema version needs a first load of its own; ``elsewhere``: in a
        namespace that holds no other version.

        Raises:
            SchemaError: more changed than columns being added.
        """
        versions = self.ledger.schema_versions(plan.name)
        if not versions:
            return True
        newest = versions[-1]
        if elsewhere:
            return True
        if newest == plan.version:
            # A version whose first load never succeeded still needs it.
            done = {load.raw_table for load in self.ledger.successful_loads(plan.name)}
            return plan.raw.name not in done
        _refuse_changes(plan, newest)
        return True

    def _refuse_unloaded(self, plan: TablePlan) -> None:
        """A column that came or went since the load would be folded as NULL. Where no load ever
        succeeded, there is nothing to fold."""
        receipt = self.ledger.newest_receipt(plan.name)
        refuse_changed(receipt, plan.contract, plan.source, plan.table)
        if self._check_version(plan) and self.ledger.successful_loads(plan.name):
            raise SchemaError(
                f"table {plan.name}: its schema changed in MySQL since it was loaded",
                table=plan.name,
                next_step="Load it again first: the new version's first load is folded with it",
                retryable=True,
            )

    def status(self, contract: TableContract) -> TableStatus:
        """What is known of a table, without asking its source and without Spark."""
        return status_of(self.config, self.ledger, [contract])[0]

    def count_rows(self, identifier: Identifier) -> int | None:
        """The rows of a lake table as its main shows them, from metadata and delete files; None if
        absent."""
        table = self.lake.load(identifier)
        if table is None:
            return None
        with self.lake.translated(identifier):
            return table.scan().count()


def _tell_of_set_back(plan: TablePlan, by: timedelta) -> None:
    if by > timedelta(minutes=1) and by_time(plan):
        logger.warning(
            "table %s: the clock of source %s was set back by %s since the last load: the window "
            "reaches back as far",
            *(plan.name, plan.source.name, timedelta(seconds=round(by.total_seconds()))),
        )


def _refuse_changes(plan: TablePlan, newest: SchemaVersion) -> None:
    _, other = plan.version.changes_from(newest)
    hidden = {name.casefold() for name in plan.contract.excluded}
    never = [name for name, _ in newest.columns if name.casefold() in hidden]
    if never:
        raise SchemaError(
            f"table {plan.name}: {', '.join(never)} is marked `pci: never`, and its mirror "
            "holds it already",
            table=plan.name,
            column=never[0],
            next_step="Mirror the table anew under other namespaces and drop the old ones: what "
            "was read can't be unread",
        )
    if other:
        raise SchemaError(
            f"table {plan.name}: its schema changed in MySQL: {'; '.join(other)}",
            table=plan.name,
            next_step="Added columns are taken up by themselves; for other changes mirror "
            "the table anew "
            "under other namespaces, or change it back",
        )
