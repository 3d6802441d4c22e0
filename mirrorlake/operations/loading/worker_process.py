"""A process beside ours that syncs small tables, some at once.

The first sync of a small table is nearly all Python of ours and of libraries, of which one process
runs one thread at a time: with a hundred such tables one core was busy and the others idle. What a
worker does is what any other `mirrorlake sync` beside this one could do: the ledger's leases keep
them apart, and one that is killed leaves what a killed sync leaves.

What belongs here: starting a worker, and talking to it. What doesn't: what it runs
(`mirrorlake.operations.loading.worker`), and which tables it is given
(`mirrorlake.operations.loading.workers`).
"""

from __future__ import annotations

import logging
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from shlex import quote
from typing import TYPE_CHECKING, Any

from mirrorlake.config import Config, TableContract
from mirrorlake.errors import MachineError, MirrorlakeError
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.table.progress import OnProgress, Progress

if TYPE_CHECKING:
    from mirrorlake.operations.loading.unchanged import Look

READY = "ready"
_PROGRAM = """
from mirrorlake.runtime.quick_imports import importing
from mirrorlake.sources.mysql.reading.helper_processes import start_helpers
start_helpers()
with importing():
    from mirrorlake.runtime.pandas_imports import hide_pandas
    hide_pandas()
    from mirrorlake.operations.loading.worker import serve
serve({ends})
"""
_LOOKS = 0.2
"""Seconds between two looks at whether the caller waits no more."""
_LAST_WORDS_SECONDS = 10
"""How long a worker that has fallen silent may take to end."""


@dataclass(frozen=True)
class Orders:
    """What a worker is told once: all that `sync_table` takes but the table."""

    config: Config
    run_id: str
    look: Look
    accept_smaller: bool
    log_level: int


@dataclass(frozen=True)
class Fault:
    """A fault of ours in the worker, as its traceback."""

    text: str


class WorkerProcess:
    """A worker, seen from the process that started it. It starts at once, and waits for `begin`.

    Args:
        lanes: how many tables it syncs at once.

    Attributes:
        lanes: its tables at once; each lane is used by one thread.

    Raises:
        MachineError: it could not be started.
    """

    def __init__(self, lanes: int) -> None:
        pairs: list[tuple[Any, Any]] = [multiprocessing.Pipe() for _ in range(lanes)]
        theirs = [end for _, end in pairs]
        ends = [end.fileno() for end in theirs]
        program = _PROGRAM.format(ends=ends)
        # Not from the folder that we happen to be in: -P.
        command = [sys.executable, "-P", "-c", program]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=ends)
        except OSError as error:
            for ours, _ in pairs:
                ours.close()
            raise MachineError(
                f"no process could be started beside this one: {error}",
                next_step="Sync with --jobs 1, which starts none.",
                retryable=True,
            ) from error
        finally:
            for end in theirs:
                end.close()
        self.lanes = tuple(WorkerLane(self, ours) for ours, _ in pairs)
        self._begun = False

    def begin(self, orders: Orders) -> None:
        """Tell it what to sync tables by."""
        self._begun = True
        self.lanes[0].send(orders)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it may be given another table."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.returncode

    def close(self) -> None:
        """End it, and wait for that: at once where it waits for a table."""
        for lane in self.lanes:
            lane.close()
        if not self._begun:
            self._process.kill()  # it may be importing still, and holds nothing
        self._process.wait()

    def end(self) -> None:
        """Wait for it to end once a lane has fallen silent, and kill it if it doesn't. The threads
        of its other lanes notice by themselves: only they may touch their connections meanwhile."""
        try:
            self._process.wait(_LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class WorkerLane:
    """One of the tables at once of a worker; used by one thread."""

    def __init__(self, worker: WorkerProcess, ours: Any) -> None:
        self.worker = worker
        self._ours: Connection[Any, Any] = ours  # or what Windows has in its place
        self._closing = threading.Lock()
        self._given_up = False

    def send(self, what: Orders | TableContract) -> None:
        """Tell the worker something."""
        with suppress(OSError):  # it died: who reads next sees it
            self._ours.send(what)

    def close(self) -> None:
        """Let this lane end."""
        # Two that close it at once would close a descriptor that somebody has opened in between.
        with self._closing:
            self._ours.close()

    def wait_until_ready(self, given_up: Callable[[], bool]) -> bool:
        """Wait until it can sync; whether it can. Its own words are on standard error if not.

        Args:
            given_up: whether the caller waits no more.
        """
        return self._next(given_up) == READY

    def sync(
        self, contract: TableContract, report: OnProgress, given_up: Callable[[], bool]
    ) -> SyncResult:
        """`sync_table`, in the worker.

        Args:
            given_up: whether the caller waits no more: what was begun ends at its next progress.

        Raises:
            MirrorlakeError: as it was raised there, or the worker has died.
            KeyboardInterrupt: it was given up.
        """
        self.send(contract)
        while isinstance(said := self._next(given_up), Progress):
            report(said)
        match said:
            case SyncResult():
                return said
            case MirrorlakeError():
                raise said
            case Fault():
                raise RuntimeError(f"a worker failed:\n{said.text}")
            case _:
                raise self._died(contract)

    def _next(self, given_up: Callable[[], bool]) -> object:
        """What it says next but for log records, which are shown here; None if it is gone, or
        nobody waits for it any more."""
        try:
            while not given_up():
                if not self._ours.poll(_LOOKS):
                    continue
                said = self._ours.recv()
                if not isinstance(said, logging.LogRecord):
                    return said
                logging.getLogger(said.name).handle(said)
        except (EOFError, OSError):
            return None
        self._given_up = True
        return None

    def _died(self, contract: TableContract) -> BaseException:
        self.close()
        if self._given_up:
            return KeyboardInterrupt()
        self.worker.end()
        return MachineError(
            f"table {contract.name}: the process that synced it ended by itself "
            f"(code {self.worker.exit_code})",
            next_step="What is committed stays. Sync it again: mirrorlake sync "
            f"{quote(contract.name)}",
            table=contract.name,
            retryable=True,
        )
