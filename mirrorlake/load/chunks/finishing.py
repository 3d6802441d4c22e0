"""The end of a chunk beside the read of the next: its last rows are written, its files closed and
flushed, its receipt recorded, while the server already sends what follows.

One chunk is read and one is finished at any time, never more: what is held in memory is bounded by
that. The one being finished needs nothing of the server: its read has given its connection back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Self

from mirrorlake.load.chunks.chunk_task import ReadChunk
from mirrorlake.load.chunks.receipt import ChunkReceipt

Record = Callable[[ChunkReceipt], None]
"""Writes a finished chunk down, so that another run need not read it again."""


class Finishing:
    """Finishes chunks one at a time, in a thread of its own, which has ended when the block has.

    A receipt is recorded as soon as its files are on the disk, whatever the next read waits for.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._pool = ThreadPoolExecutor(1, "finish")
        self._ended: Future[tuple[ChunkReceipt, Exception | None]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def begin(self, chunk: ReadChunk) -> None:
        """Finish a chunk; the one before was handed over."""
        self._ended = self._pool.submit(self._finish, chunk)

    def _finish(self, chunk: ReadChunk) -> tuple[ChunkReceipt, Exception | None]:
        receipt = chunk.finish()
        try:
            self._record(receipt)
        except Exception as error:  # noqa: BLE001 (raised once the receipt is handed over)
            return receipt, error
        return receipt, None

    def check(self) -> None:
        """Raise what a chunk failed with that is not handed over yet; costs nothing."""
        if self._ended is not None and self._ended.done():
            _, error = self._ended.result()
            if error is not None:
                raise error

    def receipts(self) -> Iterator[ChunkReceipt]:
        """The receipt of the chunk that is being finished, once it is; none if there is no such.

        Raises:
            MirrorlakeError: its files could not be written, and are removed; or it could not be
                recorded, after its receipt.
        """
        if self._ended is None:
            return
        wait([self._ended])  # interrupted here, it is still there to be handed over
        ended, self._ended = self._ended, None
        receipt, error = ended.result()
        yield receipt
        if error is not None:
            raise error
