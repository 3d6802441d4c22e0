"""What is known of one chunk that was read: it travels from its task to the driver, and is kept for
a run that resumes the load."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class ChunkReceipt:
    """What one chunk saw and wrote; see `mirrorlake.ledger.Receipt` for the words.

    ``originals`` are counted by column. ``read_bytes`` are those of its rows in memory; ``metrics``
    are pairs of a path and what a commit says of it; without, its footer is read. ``source_rows``
    and ``source_digest`` are what the server reported of the state that was read, where it did.
    ``written`` are the rows in its files, where that is not known to be ``rows``; ``carried`` those
    of ``rows`` that MySQL digested and did not send. ``source_keys`` is the server's sum of its
    keys' numbers, where each row came with the server's hash of it; ``source_digest`` is the sum
    of those then. ``proved``: its files were read again, and are row by row what the server said,
    and all of that. ``sessions`` read it, whose snapshots were shown to be one. ``log_place``: at
    which place of the log its state is, where that was found out. ``since``: when (UTC) the first
    of its transactions was committed, where its rows are a log's.
    """

    number: int
    rows: int
    bytes: int
    paths: tuple[str, ...]
    moment: datetime
    server: str
    position: str
    high: str | None
    originals: dict[str, int]
    future: int
    query_seconds: float
    metrics: tuple[tuple[str, str], ...] = ()
    read_bytes: int = 0
    source_rows: int | None = None
    source_digest: int | None = None
    written: int | None = None
    carried: int = 0
    source_keys: int | None = None
    proved: bool = False
    sessions: int = 1
    log_place: str | None = None
    since: str | None = None

    @property
    def committed(self) -> int:
        """How many rows its files have: tombstones too, and of a copy those that changed."""
        return self.rows if self.written is None else self.written


def receipt_to_json(receipt: ChunkReceipt) -> str:
    """A receipt as it travels from a task to the driver."""
    return json.dumps({**vars(receipt), "moment": receipt.moment.isoformat()})


def receipt_from_json(text: str) -> ChunkReceipt:
    """The receipt that `receipt_to_json` wrote."""
    fields: dict[str, Any] = json.loads(text)
    fields.pop("digest", None)  # an earlier release counted one, of the rows
    fields["moment"] = datetime.fromisoformat(fields["moment"])
    fields["paths"] = tuple(fields["paths"])
    fields["metrics"] = tuple((path, metrics) for path, metrics in fields["metrics"])
    return ChunkReceipt(**fields)
