"""What a worker runs: tables are synced as they come, in a thread for each of its lanes.

What belongs here: the worker's end. What doesn't: the other one
(`mirrorlake.operations.loading.worker_process`), which imports none of what a sync needs.
"""

from __future__ import annotations

import logging
import signal
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from mirrorlake.config import TableContract
from mirrorlake.errors import MirrorlakeError
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.loading.worker_process import READY, Fault, Orders
from mirrorlake.table.progress import OnProgress
from mirrorlake.workspace import Workspace


class _Pipe:
    """The worker's end of a lane: what it says there, from whichever thread."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection, self._one_at_a_time = connection, threading.Lock()

    def receive(self) -> Any:
        """What comes next.

        Raises:
            EOFError: nobody is at the other end any more.
        """
        try:
            return self._connection.recv()
        except OSError:
            raise EOFError from None

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


class _Logs(logging.Handler):
    """Log records go to the lane whose thread wrote them, with their words and no more; those of
    other threads to the first."""

    def __init__(self, pipes: Sequence[_Pipe]) -> None:
        super().__init__()
        self._first = pipes[0]
        self.mine = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args = record.getMessage(), None
        record.exc_info, record.stack_info = None, None
        pipe: _Pipe = getattr(self.mine, "pipe", self._first)
        with suppress(KeyboardInterrupt):
            pipe.send(record)


def serve(descriptors: Sequence[int]) -> None:
    """Sync tables as they come through sockets, until nobody is at their other ends. A terminal's
    Ctrl-C is for that one, which then closes them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipes = [_Pipe(Connection(descriptor)) for descriptor in descriptors]
    try:
        orders: Orders = pipes[0].receive()
    except EOFError:
        return
    logs = _Logs(pipes)
    logging.basicConfig(level=orders.log_level, handlers=[logs])
    with Workspace.open(orders.config, orders.run_id) as workspace:
        lanes = [
            threading.Thread(target=_serve_lane, args=(workspace, orders, pipe, logs))
            for pipe in pipes
        ]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()


def _serve_lane(workspace: Workspace, orders: Orders, pipe: _Pipe, logs: _Logs) -> None:
    logs.mine.pipe = pipe
    with suppress(EOFError, KeyboardInterrupt), workspace.spark.own_session():
        pipe.send(READY)
        while True:
            pipe.send(_synced(workspace, pipe.receive(), orders, pipe.send))


def _synced(
    workspace: Workspace, contract: TableContract, orders: Orders, report: OnProgress
) -> SyncResult | MirrorlakeError | Fault:
    try:
        return sync_table(
            *(workspace, contract, report),
            accept_smaller=orders.accept_smaller,
            look=orders.look,
        )
    except MirrorlakeError as error:
        return error
    except Exception:  # noqa: BLE001 - raised where the worker was started
        return Fault(traceback.format_exc())
