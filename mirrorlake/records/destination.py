"""What a place has to offer to which records go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from mirrorlake.errors import LandingError, RecordsError
from mirrorlake.ledger import Load
from mirrorlake.records.load_records import LoadRecords


@dataclass(frozen=True)
class LoadBatch:
    """Loads that are published together, in their order.

    Attributes:
        loads: each with the successful one before it, where there is one.
        event: up to which of its events the first one is there already.
        copies: whether rows that a copy read are wanted.
        check: sees that this run may still write.
        reached: called with the number of an event up to which the first load is there, and how
            many records that were since the last call.
    """

    loads: Sequence[tuple[Load | None, Load]]
    event: int
    copies: bool
    check: Callable[[], None]
    reached: Callable[[int, int], None]

    @property
    def first(self) -> Load:
        return self.loads[0][1]

    @property
    def last(self) -> Load:
        return self.loads[-1][1]


@dataclass(frozen=True)
class BatchPublished:
    """What became of a batch.

    Attributes:
        records: those that no ``reached`` counted.
        files: in how many files.
        position: of the last record that has one, as raw has it.
    """

    records: int
    files: int = 0
    position: str | None = None


@contextmanager
def store_errors(table: str) -> Iterator[None]:
    """What a folder or a bucket says in the block, as an error about a table's records."""
    try:
        yield
    except LandingError as error:
        raise RecordsError(
            f"table {table}: its records can't be published: {error.message}",
            table=table,
            next_step="Make sure that it can be reached and written to; the next run continues "
            "from there",
            retryable=error.retryable,
        ) from error


class RecordDestination(Protocol):
    """Where records of one table go.

    Attributes:
        most_rows: how many rows loads that are gathered in one batch have together, unless one has
            more; 0: each load is a batch of its own.
    """

    most_rows: int

    def known(self) -> Mapping[int, str]:
        """By their numbers the loads that are there whole by the destination's own word, and their
        ids. Asked where the ledger does not know how far it came."""
        ...

    def newest(self) -> Mapping[int, str]:
        """By their numbers the loads of the newest batch that is there, and their ids; none where
        the destination does not say what it has."""
        ...

    def publish(self, records: LoadRecords, batch: LoadBatch) -> BatchPublished:
        """Publish a batch; once it returned, it is there whole.

        Raises:
            RecordsError: the destination failed or refused; what it took of the batch is published
                again by the next attempt.
        """
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...
