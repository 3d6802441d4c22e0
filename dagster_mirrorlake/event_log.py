"""Many events written into Dagster's log at once.

Dagster's SQLite storage opens four connections and waits for the disk twice for each event: a
history of three years took it minutes. Here it writes some dozens in one transaction. Other
storages are given the events together, as they take them. Imports internals of Dagster (ADR 66).
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import dagster as dg
from dagster._core.events import DagsterEvent, StepMaterializationData
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from sqlalchemy.engine import Connection

_AT_ONCE = 50
"""Events of one transaction: nobody else writes meanwhile, so it must not take long."""
_NO_RUN = ""


def write_materializations(
    instance: dg.DagsterInstance, events: Sequence[dg.AssetMaterialization]
) -> None:
    """Report these, which no run made, in their order; each as
    `DagsterInstance.report_runless_asset_event` would."""
    storage = instance.event_log_storage
    for start in range(0, len(events), _AT_ONCE):
        entries = [_entry(event) for event in events[start : start + _AT_ONCE]]
        if type(storage) is SqliteEventLogStorage:
            with _InOneTransaction.beside(storage) as together:
                together.store_event_batch(entries)
        else:
            storage.store_event_batch(entries)


def _entry(event: dg.AssetMaterialization) -> EventLogEntry:
    return EventLogEntry(
        error_info=None,
        level=logging.INFO,
        user_message="",
        run_id=_NO_RUN,
        timestamp=time.time(),
        step_key=None,
        job_name=_NO_RUN,
        dagster_event=DagsterEvent(
            event_type_value=dg.DagsterEventType.ASSET_MATERIALIZATION.value,
            event_specific_data=StepMaterializationData(event),
            job_name=_NO_RUN,
        ),
    )


class _InOneTransaction(SqliteEventLogStorage):
    """The same databases, each by one connection, whose transaction ends with the block."""

    _opened: dict[str, Connection]
    _closing: ExitStack

    @classmethod
    @contextmanager
    def beside(cls, storage: SqliteEventLogStorage) -> Iterator["_InOneTransaction"]:
        """A storage of this block's own: other threads use ``storage`` meanwhile."""
        there = cls(storage._base_dir)  # pyright: ignore[reportPrivateUsage]
        there._db_lock = threading.RLock()  # pyright: ignore[reportAttributeAccessIssue]
        there._opened = {}
        with ExitStack() as there._closing:
            yield there

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        if shard not in self._opened:
            self._opened[shard] = self._closing.enter_context(super()._connect(shard))
        yield self._opened[shard]
