"""Records in a queue: each at least once, in the order of its key, under an id that stays.

What belongs here: the port, and what goes through it. What doesn't: a queue.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mirrorlake.config.contract import TableContract
from mirrorlake.failpoints import failpoint
from mirrorlake.records.destination import BatchPublished, LoadBatch
from mirrorlake.records.load_records import LoadRecords
from mirrorlake.records.record import ChangeRecord

_MESSAGES: Final = 500
_BYTES: Final = 4_000_000
"""How many messages, and how many bytes of them, are sent before the ledger is told."""


@dataclass(frozen=True)
class Message:
    """One record as a queue takes it.

    Attributes:
        id: the same whenever the record is sent.
        ordering_key: messages that share it stay in their order: those of one key of a table; and
            those of a table as a whole.
        attributes: what a reader may filter by without reading the body.
        body: the record as JSON.
    """

    id: str
    ordering_key: str
    attributes: Mapping[str, str]
    body: bytes


class Queue(Protocol):
    """A queue of messages."""

    def send(self, messages: Sequence[Message]) -> None:
        """Send messages; once it returned, all are taken.

        Raises:
            RecordsError: the queue failed or refused; it may have taken some.
        """
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...


class RecordQueue:
    """The records of one table in a queue."""

    most_rows = 0

    def __init__(self, queue: Queue, contract: TableContract) -> None:
        self._queue, self._contract = queue, contract

    def close(self) -> None:
        """Close the queue."""
        self._queue.close()

    def known(self) -> Mapping[int, str]:
        """See `RecordDestination.known`: a queue does not say what it took."""
        return {}

    def newest(self) -> Mapping[int, str]:
        """See `RecordDestination.newest`."""
        return {}

    def publish(self, records: LoadRecords, batch: LoadBatch) -> BatchPublished:
        """See `RecordDestination.publish`."""
        sent, position = 0, None
        for before, load in batch.loads:
            found = records.records(load, before, copies=batch.copies)
            left = (one for one in found if not batch.event or one.event > batch.event)
            for some in _bounded(left):
                batch.check()
                self._queue.send([self._message(one) for one in some])
                failpoint("records.sent")
                position = some[-1].position or position
                if load.window.kind == "log":
                    batch.reached(some[-1].event, len(some))
                else:  # rows of a copy have no order that stays: it is sent again as a whole
                    sent += len(some)
        return BatchPublished(sent, position=position)

    def _message(self, record: ChangeRecord) -> Message:
        contract = self._contract
        of_key = f":{hashlib.sha256(record.key.encode()).hexdigest()[:32]}" if record.key else ""
        attributes = {
            "id": record.id,
            "source": contract.source,
            "database": contract.database,
            "table": contract.table,
            "operation": record.operation,
            "load": str(record.load),
            "event": str(record.event),
        }
        return Message(record.id, f"{contract.name}{of_key}", attributes, record.line.encode())


def _bounded(records: Iterator[ChangeRecord]) -> Iterator[list[ChangeRecord]]:
    some: list[ChangeRecord] = []
    size = 0
    for record in records:
        if some and (len(some) >= _MESSAGES or size + len(record.line) > _BYTES):
            yield some
            some, size = [], 0
        some.append(record)
        size += len(record.line)
    if some:
        yield some
