"""A chunk is finished beside the next read: one at a time, recorded at once, and never lost."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest

from mirrorlake.errors import LakeError, LeaseHeld
from mirrorlake.load.chunks.chunk_task import ReadChunk
from mirrorlake.load.chunks.finishing import Finishing
from mirrorlake.load.chunks.receipt import ChunkReceipt

WAIT = 10.0


class Chunk:
    """Stands for a chunk whose rows are read; it can be held up, and can fail."""

    def __init__(self, number: int, error: Exception | None = None) -> None:
        self.receipt = cast(ChunkReceipt, f"receipt {number}")
        self.may_end, self.begun = threading.Event(), threading.Event()
        self.error = error

    def finish(self) -> ChunkReceipt:
        self.begun.set()
        assert self.may_end.wait(WAIT)
        if self.error is not None:
            raise self.error
        return self.receipt


def begin(finishing: Finishing, chunk: Chunk) -> None:
    finishing.begin(cast(ReadChunk, chunk))


def check_until_it_ends(finishing: Finishing) -> None:
    """As the next read does, with each of its batches."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        finishing.check()


def test_recorded_when_it_ends_and_not_when_it_is_handed_over() -> None:
    recorded = threading.Event()
    chunk = Chunk(1)
    with Finishing(lambda _: recorded.set()) as finishing:
        begin(finishing, chunk)
        finishing.check()
        assert not recorded.is_set()
        chunk.may_end.set()
        assert recorded.wait(WAIT)
        assert list(finishing.receipts()) == [chunk.receipt]
        assert list(finishing.receipts()) == []


def test_the_next_read_learns_that_it_failed() -> None:
    full = LakeError("no space", next_step="")
    chunk = Chunk(1, full)
    seen: list[Any] = []
    with Finishing(seen.append) as finishing:
        begin(finishing, chunk)
        chunk.may_end.set()
        with pytest.raises(LakeError, match="no space"):
            check_until_it_ends(finishing)
        with pytest.raises(LakeError, match="no space"):
            list(finishing.receipts())
    assert seen == []


def test_a_receipt_that_could_not_be_recorded_is_handed_over_before_the_error() -> None:
    """So that whoever gives the load up knows its files."""
    chunk, taken = Chunk(1), []

    def refuse(_: ChunkReceipt) -> None:
        raise LeaseHeld("taken over", table="t", next_step="", retryable=True)

    with Finishing(refuse) as finishing:
        begin(finishing, chunk)
        chunk.may_end.set()
        with pytest.raises(LeaseHeld):
            check_until_it_ends(finishing)
        with pytest.raises(LeaseHeld):
            taken.extend(finishing.receipts())
    assert taken == [chunk.receipt]


def test_interrupted_while_it_is_waited_for_it_is_still_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chunk = Chunk(1)
    with Finishing(lambda _: None) as finishing:
        begin(finishing, chunk)
        with monkeypatch.context() as patch:
            patch.setattr("mirrorlake.load.chunks.finishing.wait", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                list(finishing.receipts())
        chunk.may_end.set()
        assert list(finishing.receipts()) == [chunk.receipt]


def _interrupted(_: Any) -> None:
    raise KeyboardInterrupt


def test_nobody_writes_once_the_block_has_ended() -> None:
    chunk = Chunk(1)
    recorded: list[Any] = []
    with Finishing(recorded.append) as finishing:
        begin(finishing, chunk)
        assert chunk.begun.wait(WAIT)
        threading.Timer(0.05, chunk.may_end.set).start()
    assert recorded == [chunk.receipt]
    assert not [t for t in threading.enumerate() if t.name.startswith("finish")]
