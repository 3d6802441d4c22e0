"""Where a load's rows come from: the seam between the commit protocol and what is read.

Each part of a load is read by one task, here or on a Spark worker: a source travels there, and
holds nothing open. Whatever it is, rows come exact, in raw's columns, with their load's number; a
source of events numbers those of one load in ``_mirror_event``.

What belongs here: the seam. What doesn't: sources (`mirrorlake.load.chunks.select_rows`,
`mirrorlake.load.tenants.read`), and how rows are written (`mirrorlake.load.chunks.chunk_task`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.sources.mysql.reading.route import Heed
from mirrorlake.sources.mysql.sessions.connect import SourcePosition

OnRows = Callable[[int, int], None]
"""Called with (rows, bytes in Arrow) of every batch that was taken in."""


@dataclass(frozen=True)
class Rows:
    """The rows of a part, as they come.

    Attributes:
        part: what is read, and how it is written: that may be other than was planned.
        seen: which server answers, and where it stood just before.
        batches: the rows; they are read once. Closed, they leave no session of the source open.
        tallies: rows and digests as the source says of the very state that is read, once they have
            come: one of a part, or one of each tenant. None: it was not asked.
        seconds: how long the source was read before the first of these rows.
        asked_last: whether the source is asked for the tallies after the rows: the empty batch that
            comes then is the last one.
        sessions: how many read it, whose snapshots were shown to be one.
        log_place: once they have come, at which place of the log the state is that is read; None:
            that was not found out.
    """

    part: ChunkPlan
    seen: SourcePosition
    batches: Generator[pa.Table]
    tallies: Callable[[], Sequence[Tally]] | None = None
    seconds: float = 0.0
    asked_last: bool = False
    sessions: int = 1
    log_place: Callable[[], str] | None = None


class RowSource(Protocol):
    """Where rows come from."""

    def read(self, part: ChunkPlan, heed: Heed | None = None, report: OnRows | None = None) -> Rows:
        """The rows of one part of a load, all of one state of the source.

        Args:
            heed: called while rows come, and are waited for; raises to give the part up.
            report: called with what is read before, to find out which rows are to come.

        Raises:
            SourceError: the source was lost, refused, or another one answered.
            SourceBusy: it did not come to rest.
        """
        ...
