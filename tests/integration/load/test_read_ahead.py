"""The next chunk is read while the last one is finished: one read at a time as ever, and whatever
fails or dies there, nothing is lost and nothing doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits import data_files
from mirrorlake.destinations.iceberg.commits.data_files import PartFiles
from mirrorlake.errors import LakeError, ReadGivenUp, SourceError
from mirrorlake.load.chunks import runner, select_rows
from mirrorlake.load.chunks.chunk_task import ReadChunk
from mirrorlake.load.protocol import protocol
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.table.progress import Progress
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place

ROWS, CHUNK = 6_000, 750
ALL = [(n * 10, n) for n in range(1, ROWS + 1)]
CONTRACT = {"mode": "append", "key": ["id"], "cursor": "id", "overlap_keys": 0}
WAIT = 20.0
Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.fixture
def workspace(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Workspace]:
    """A table of many chunks, and who reads it."""
    sql(
        "CREATE TABLE big (id INT PRIMARY KEY, v INT NOT NULL)",
        f"INSERT INTO big SELECT seq * 10, seq FROM seq_1_to_{ROWS}",
        "ANALYZE TABLE big",
    )
    monkeypatch.setattr(protocol, "ROWS_PER_CHUNK", CHUNK)
    return lambda **source: engine_for({"big": CONTRACT}, source)


def load(workspace: Workspace, progress: Callable[[Progress], None] | None = None) -> int:
    return load_table(workspace, workspace.config.table("big"), progress).rows


def mirrored(workspace: Workspace) -> list[tuple[int, int]]:
    """All of raw, by key: a row that stands there twice is here twice."""
    spaces = workspace.config.table("big").namespaces
    (name,) = {v.raw_table for v in workspace.ledger.schema_versions("s." + _database(workspace))}
    table = workspace.lake.load(Identifier(spaces.raw, name))
    assert table is not None
    rows = table.scan(selected_fields=("id", "v")).to_arrow().to_pylist()
    return sorted((row["id"], row["v"]) for row in rows)


def _database(workspace: Workspace) -> str:
    contract = workspace.config.table("big")
    return f"{contract.database}.{contract.table}"


def recorded(workspace: Workspace) -> list[int]:
    """The chunks of the load that another run may resume."""
    found = workspace.ledger.chunked_load("s." + _database(workspace))
    return sorted(found.receipts) if found else []


def files(place: Place) -> list[Path]:
    return list((place.folder / "lake").rglob("data/**/*.parquet"))


def chunk_of(read: ReadChunk) -> int:
    return read.rows.part.number


@contextmanager
def finishing(
    monkeypatch: pytest.MonkeyPatch, number: int | None, act: Callable[[], None]
) -> Iterator[None]:
    """Something happens when a chunk (None: any) begins to be finished, before it is."""
    finish = ReadChunk.finish

    def held(read: ReadChunk) -> Any:
        if number in (None, chunk_of(read)):
            act()
        return finish(read)

    with monkeypatch.context() as patch:
        patch.setattr(ReadChunk, "finish", held)
        yield


class Rows:
    """When the first rows of each chunk come."""

    def __init__(self) -> None:
        self._came: defaultdict[int, threading.Event] = defaultdict(threading.Event)
        take_in = runner.take_in

        def taken(plan: Any, source: Any, report: Any, heed: Any) -> Any:
            def told(rows: int, size: int) -> None:
                self._came[plan.number].set()
                report(rows, size)

            return take_in(plan, source, told, heed)

        self.take_in = taken

    def wait_for(self, number: int) -> None:
        assert self._came[number].wait(WAIT)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    found = Rows()
    monkeypatch.setattr(runner, "take_in", found.take_in)
    return found


# --- side by side -----------------------------------------------------------------------------


def test_a_chunk_is_read_while_the_last_is_finished(
    workspace: Callable[..., Workspace], rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second chunk is not finished before rows of the third have come."""
    mirror = workspace()
    with finishing(monkeypatch, 1, lambda: rows.wait_for(2)):
        assert load(mirror) == ROWS
    assert mirrored(mirror) == ALL


@pytest.mark.parametrize("connections", [1, 4])
def test_one_read_at_a_time(
    workspace: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch, connections: int
) -> None:
    """And its connection is counted while it reads alone."""
    open_reads: list[int] = []
    now = 0
    read_batches = select_rows.read_batches

    def counted(*given: Any, **named: Any) -> Iterator[Any]:
        nonlocal now
        now += 1
        open_reads.append(now)
        try:
            yield from read_batches(*given, **named)
        finally:
            now -= 1

    monkeypatch.setattr(select_rows, "read_batches", counted)
    mirror = workspace(connections=connections)
    source = mirror.config.sources["s"]
    free: list[bool] = []

    def another_may_read() -> None:
        def take() -> None:
            with runner.reading(source):
                free.append(True)

        thread = threading.Thread(target=take)
        thread.start()
        thread.join(WAIT)

    with finishing(monkeypatch, None, another_may_read):
        load(mirror)
    assert len(open_reads) > 4
    assert set(open_reads) == {1}
    assert len(free) == len(open_reads)
    assert mirrored(mirror) == ALL


# --- failures -----------------------------------------------------------------------------------


def fail_reading(
    monkeypatch: pytest.MonkeyPatch, number: int, error: Exception, failed: threading.Event
) -> list[int]:
    """A chunk fails once its rows have come; which chunks were read is in the list."""
    take_in, begun = runner.take_in, list[int]()

    def taken(plan: Any, *given: Any) -> Any:
        begun.append(plan.number)
        read = take_in(plan, *given)
        if plan.number == number and begun.count(number) == 1:
            read.discard()
            failed.set()
            raise error
        return read

    monkeypatch.setattr(runner, "take_in", taken)
    return begun


@pytest.mark.parametrize("column", [None, "v"])
def test_a_chunk_that_fails_for_good_costs_no_other(
    workspace: Callable[..., Workspace],
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    column: str | None,
) -> None:
    """It fails while the one before is being finished. Where it is a column's value that fails, the
    next run would get no further: no file stays."""
    mirror, failed, before = workspace(), threading.Event(), set(files(place))
    gone = SourceError("gone", next_step="", retryable=False, column=column)
    with monkeypatch.context() as patch:
        fail_reading(patch, 3, gone, failed)
        with finishing(patch, 2, lambda: failed.wait(WAIT) or None), pytest.raises(SourceError):
            load(mirror)
    assert recorded(mirror) == ([] if column else [0, 1, 2])
    assert len(set(files(place)) - before) == (0 if column else 3)
    again = fail_reading(monkeypatch, -1, gone, failed)
    assert load(mirror) == ROWS
    assert again[0] == (0 if column else 3)
    assert mirrored(mirror) == ALL


def test_a_chunk_that_fails_for_once_is_read_again_alone(
    workspace: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.01)
    mirror, failed = workspace(), threading.Event()
    lost = SourceError("lost", next_step="", retryable=True)
    begun = fail_reading(monkeypatch, 3, lost, failed)
    with finishing(monkeypatch, 2, lambda: failed.wait(WAIT) or None):
        assert load(mirror) == ROWS
    assert begun == sorted([*range(max(begun) + 1), 3])
    assert mirrored(mirror) == ALL


@pytest.mark.parametrize("late", [False, True])
def test_a_chunk_that_can_not_be_finished_ends_the_next_read(
    workspace: Callable[..., Workspace],
    place: Place,
    rows: Rows,
    monkeypatch: pytest.MonkeyPatch,
    late: bool,
) -> None:
    """And neither of them leaves a file; the finished ones are where the next run begins."""
    mirror = workspace()
    monkeypatch.setattr(data_files, "BUDGET_BYTES", 1)  # rows are in files as soon as they come

    finish = PartFiles.finish

    def full(written: PartFiles) -> Any:
        if not written._stem.endswith("-00002"):
            return finish(written)
        if late:
            rows.wait_for(3)
        raise OSError(28, "No space left on device")

    before = set(files(place))
    with monkeypatch.context() as patch:
        begun = fail_reading(patch, -1, LakeError("", next_step=""), threading.Event())
        patch.setattr(PartFiles, "finish", full)
        with pytest.raises(LakeError, match="No space left"):
            load(mirror)
    assert begun in ([0, 1, 2], [0, 1, 2, 3])
    # The disk is full: nothing says that another run would get further.
    assert recorded(mirror) == []
    assert set(files(place)) == before
    assert load(mirror) == ROWS
    assert mirrored(mirror) == ALL


# --- given up, and killed -----------------------------------------------------------------------


def test_whoever_waits_for_the_table_waits_for_no_file(
    workspace: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read is given up while another chunk is being finished: its connection goes at once, and
    what is being finished is kept."""
    mirror, begun, let_go = workspace(), threading.Event(), threading.Event()
    take_in = runner.take_in

    def taken(plan: Any, *given: Any) -> Any:
        if plan.number == 2:
            begun.set()
        try:
            return take_in(plan, *given)
        finally:
            if plan.number == 2:
                let_go.set()

    def heed(_: Any) -> None:
        if begun.is_set():
            raise ReadGivenUp("an ALTER waits", next_step="", retryable=True)

    with monkeypatch.context() as patch:
        patch.setattr("mirrorlake.operations.loading.sync.ATTEMPTS", 1)
        patch.setattr(runner, "take_in", taken)
        patch.setattr(protocol.Guard, "heed", heed)
        with (
            finishing(patch, 1, lambda: let_go.wait(WAIT) or pytest.fail("the read held on")),
            pytest.raises(ReadGivenUp),
        ):
            load(mirror)
    assert recorded(mirror) == [0, 1]
    assert load(mirror) == ROWS
    assert mirrored(mirror) == ALL


def die_between(config: str, number: int) -> None:
    """Killed while a chunk is finished and rows of the next have come; in a child."""
    finish, rows = ReadChunk.finish, Rows()

    def held(read: ReadChunk) -> Any:
        if chunk_of(read) == number:
            rows.wait_for(number + 1)
            os.kill(os.getpid(), signal.SIGKILL)
        return finish(read)

    protocol.ROWS_PER_CHUNK = CHUNK
    runner.take_in, ReadChunk.finish = rows.take_in, held  # type: ignore[method-assign]
    load(Workspace.open(load_config(Path(config))))


@pytest.mark.full
def test_killed_with_two_chunks_open(workspace: Callable[..., Workspace], place: Place) -> None:
    mirror = workspace()
    call = f"from {__name__} import die_between; die_between({str(place.folder / 'mirrorlake.yaml')!r}, 2)"
    child = subprocess.run([sys.executable, "-c", call], cwd=Path(__file__).parents[3], timeout=120)
    assert child.returncode == -signal.SIGKILL
    assert recorded(mirror) == [0, 1]
    assert load(mirror) == ROWS
    assert mirrored(mirror) == ALL
