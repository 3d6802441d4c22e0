"""A process beside ours that syncs small tables, one after another.

The first sync of a small table is nearly all Python of ours and of libraries, of which one process
runs one thread at a time: with a hundred such tables one core was busy and the others idle. What a
worker does is what any other `mirrorlake sync` beside this one could do: the ledger's leases keep
them apart, and one that is killed leaves what a killed sync leaves.

What belongs here: starting a worker, talking to it, and what it runs. What doesn't: which tables it
is given (`mirrorlake.operations.loading.sync_tables`).
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from shlex import quote
from typing import Any

from mirrorlake.config import Config, TableContract
from mirrorlake.errors import MachineError, MirrorlakeError
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.runtime.pandas_imports import import_arrow_alone
from mirrorlake.table.progress import OnProgress, Progress
from mirrorlake.workspace import Workspace

_READY = "ready"
_LOOKS = 0.2
"""Seconds between two looks at whether the caller waits no more."""


@dataclass(frozen=True)
class Orders:
    """What a worker is told once: all that `sync_table` takes but the table."""

    config: Config
    run_id: str
    look: Look
    accept_smaller: bool
    log_level: int


@dataclass(frozen=True)
class _Fault:
    """A fault of ours in the worker, as its traceback."""

    text: str


class WorkerProcess:
    """A worker, seen from the process that started it; used by one thread.

    Raises:
        MachineError: it could not be started.
    """

    def __init__(self, orders: Orders) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        program = (
            f"from {import_arrow_alone.__module__} import import_arrow_alone; "
            "import_arrow_alone(); "
            f"from {__name__} import serve; serve({theirs.fileno()})"
        )
        # Not from the folder that we happen to be in: -P.
        command = [sys.executable, "-P", "-c", program]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        except OSError as error:
            self._ours.close()
            raise MachineError(
                f"no process could be started beside this one: {error}",
                next_step="Sync with --jobs 1, which starts none.",
                retryable=True,
            ) from error
        finally:
            theirs.close()
        self._given_up = False
        with suppress(OSError):  # it died: who reads next sees it
            self._ours.send(orders)

    def wait_until_ready(self, given_up: Callable[[], bool]) -> bool:
        """Wait until it can sync; whether it can. Its own words are on standard error if not.

        Args:
            given_up: whether the caller waits no more.
        """
        return self._next(given_up) == _READY

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
        with suppress(OSError):  # it died: who reads next sees it
            self._ours.send(contract)
        while isinstance(said := self._next(given_up), Progress):
            report(said)
        match said:
            case SyncResult():
                return said
            case MirrorlakeError():
                raise said
            case _Fault():
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
        return MachineError(
            f"table {contract.name}: the process that synced it ended by itself "
            f"(code {self._process.returncode})",
            next_step="What is committed stays. Sync it again: mirrorlake sync "
            f"{quote(contract.name)}",
            table=contract.name,
            retryable=True,
        )

    @property
    def alive(self) -> bool:
        """Whether it may be given another table."""
        return self._process.returncode is None

    def close(self) -> None:
        """End it, and wait for that: at once where it waits for a table."""
        self._ours.close()
        self._process.wait()


class _Pipe(logging.Handler):
    """The worker's end: what it says, from whichever thread; its log records too, with their words
    and no more."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        super().__init__()
        self._connection, self._one_at_a_time = connection, threading.Lock()

    def send(self, message: object) -> None:
        """Say something.

        Raises:
            KeyboardInterrupt: nobody listens any more: a load that reports its progress ends by it
                as one in a thread does.
        """
        try:
            with self._one_at_a_time:
                self._connection.send(message)
        except OSError:
            raise KeyboardInterrupt from None

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args = record.getMessage(), None
        record.exc_info, record.stack_info = None, None
        with suppress(KeyboardInterrupt):
            self.send(record)


def serve(descriptor: int) -> None:
    """What a worker runs: tables are synced as they come through a socket, until nobody is at its
    other end. A terminal's Ctrl-C is for that one, which then closes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection: Connection[Any, Any] = Connection(descriptor)
    orders: Orders = connection.recv()
    pipe = _Pipe(connection)
    logging.basicConfig(level=orders.log_level, handlers=[pipe])
    workspace = Workspace.open(orders.config, orders.run_id)
    with suppress(EOFError, KeyboardInterrupt), workspace:
        pipe.send(_READY)
        while True:
            pipe.send(_synced(workspace, connection.recv(), orders, pipe.send))


def _synced(
    workspace: Workspace, contract: TableContract, orders: Orders, report: OnProgress
) -> SyncResult | MirrorlakeError | _Fault:
    try:
        return sync_table(
            *(workspace, contract, report),
            accept_smaller=orders.accept_smaller,
            look=orders.look,
        )
    except MirrorlakeError as error:
        return error
    except Exception:  # noqa: BLE001 - raised where the worker was started
        return _Fault(traceback.format_exc())
