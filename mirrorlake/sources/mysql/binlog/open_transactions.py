"""Transactions that are not done: the one that events are of, and prepared ones (XA), whose rows
wait, on disk where they are many, for the commit.

Source: MySQL 8.0 manual, 13.3.8 "XA Transactions"; MariaDB knowledge base, "XA Transactions": a
prepared transaction is in the log before it is known whether it is committed, and others come
between.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.events.framing import LogEvent, inner_event, pack_event
from mirrorlake.sources.mysql.binlog.events.gtid_events import TransactionStart
from mirrorlake.sources.mysql.binlog.log_batches import LogTransaction
from mirrorlake.sources.mysql.binlog.positions import StreamPosition

_IN_MEMORY = 4 * 2**20


class PreparedTransaction:
    """The events of one, in their order.

    Args:
        since: where it begins in the log.
    """

    def __init__(self, since: StreamPosition) -> None:
        self.since = since
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115

    def add(self, event: LogEvent) -> None:
        """Keep an event."""
        packed = pack_event(event)
        self._file.write(len(packed).to_bytes(4, "little") + packed)

    def events(self) -> Iterator[LogEvent]:
        """All of them; they are gone then."""
        with self._file as kept:
            kept.seek(0)
            while head := kept.read(4):
                packed = kept.read(int.from_bytes(head, "little"))
                yield inner_event(packed)

    def forget(self) -> None:
        """They are not needed."""
        self._file.close()


class PreparedTransactions:
    """Those that are open, by name, the earliest first."""

    def __init__(self) -> None:
        self._known: dict[str, PreparedTransaction] = {}

    @property
    def since(self) -> StreamPosition | None:
        """Where the earliest begins."""
        return next((one.since for one in self._known.values()), None)

    def prepare(self, xid: str, transaction: PreparedTransaction) -> None:
        """Keep one until it is known what becomes of it.

        Raises:
            LogUnreadable: one of that name is open already.
        """
        if xid in self._known:
            raise unreadable("An event (XA_PREPARE)", f"{xid} is prepared already")
        self._known[xid] = transaction

    def take(self, xid: str) -> PreparedTransaction | None:
        """One that is open no more; None: it was prepared before reading began."""
        return self._known.pop(xid, None)


@dataclass
class OpenTransaction:
    """The transaction that events are of now.

    Attributes:
        silent: it was given out before.
        begun: whether more than one statement may come.
    """

    mark: LogTransaction
    start: TransactionStart
    silent: bool
    begun: bool = False
    xid: str = ""
    prepared: PreparedTransaction | None = None
    given_out: bool = False
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
