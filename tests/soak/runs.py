"""Runs in processes of their own, forked from a warm one, that a test may kill at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.soak import runner

ROOT = Path(__file__).parents[2]
STUCK_SECONDS = 90.0
PATIENCE = 300.0
"""How long one that is stuck is waited for, once it said where."""
START_SECONDS = 600.0
"""So long a runner may take to start its JVM, on a machine that does much else."""


@dataclass(frozen=True)
class Order:
    """What a child is to do: ``sync``, ``load``, ``fold``, ``reload`` of ``days``, ``refold``,
    ``recover``; ``tenants``, a sync of a table of tenants; ``follow``, of the source ``table``, whose
    failpoint is set once its tables of tenants are followed; or ``command``, a command line of
    ``arguments``.

    ``spark`` says whether it may use the runner's JVM, which is started if there is none; a reload
    folds as well then.
    """

    config: Path
    table: str = ""
    act: str = "sync"
    days: tuple[str, str] | tuple[()] = ()
    failpoint: str = ""
    spark: bool = True
    lease_seconds: float = 0.0
    rows_per_chunk: int = 0
    accept_smaller: bool = False
    arguments: tuple[str, ...] = ()


@dataclass
class Run:
    """One child: its process, and what became of it."""

    order: Order
    pid: int
    answer: Path
    started: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    code: int | None = None

    @property
    def error(self) -> str:
        """What it said of its failure, or ''."""
        with contextlib.suppress(OSError):
            return self.answer.read_text("utf-8")
        return ""

    def until_joined(self, seconds: float = STUCK_SECONDS) -> None:
        """Wait until what it follows are its tables of tenants, too."""
        joined, deadline = Path(f"{self.answer}.joined"), time.monotonic() + seconds
        while not joined.exists():
            assert time.monotonic() < deadline, self.error
            time.sleep(0.05)

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.started


class Runner:
    """A `runner` process; made again when it, or its JVM, was killed.

    ``folder`` is its own: the children's answers and what they print. ``gateway`` gives the port and
    the secret of a JVM that is there already, over the same lake; without one the runner starts its
    own.
    """

    def __init__(self, folder: Path, gateway: Callable[[], tuple[int, str]] | None = None) -> None:
        self.folder = folder
        self._gateway = gateway
        folder.mkdir(parents=True, exist_ok=True)
        self.starts = 0
        self._number = 0
        self._process: subprocess.Popen[str] | None = None
        self._told = threading.Condition()
        self._pids: dict[int, int] = {}
        self._codes: dict[int, int] = {}

    # --- its own life -----------------------------------------------------------------------------

    def _open(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            with (self.folder / "runner.log").open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", runner.__name__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    cwd=ROOT,
                    start_new_session=True,  # one group: the runner, its children, the JVM
                )
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        return self._process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(json.JSONDecodeError), self._told:
                told = json.loads(line)
                where = self._pids if "pid" in told else self._codes
                where[told["number"]] = told.get("pid", told.get("code"))
                self._told.notify_all()

    def jvm(self) -> int | None:
        """The process id of the JVM, if there is one."""
        if self._process is None:
            return None
        here = Path("/proc")
        for status in here.glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, IndexError):
                name, _, rest = status.read_text().partition("(")[2].rpartition(")")
                group = int(rest.split()[2])
                if name == "java" and group == self._process.pid:
                    return int(status.parent.name)
        return None

    def warm(self, config: Path) -> None:
        """Start the JVM now."""
        self.wait(self.start(Order(config, act="warm")), START_SECONDS)

    def kill(self) -> None:
        """SIGKILL to the whole tree: the runner, its children, the JVM."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
            self._close()

    def stop(self) -> None:
        """End in order; children that still run are waited for."""
        if self._process is not None and self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(60)
        # A child that a failed test left stopped would hold the pipe open for ever.
        self.kill()

    def _close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError, ValueError):
                        stream.close()

    # --- runs -------------------------------------------------------------------------------------

    def start(self, order: Order) -> Run:
        """Fork a child; it runs when this returns."""
        process = self._open()
        self._number += 1
        answer = self.folder / f"answer-{self._number}"
        fields: dict[str, Any] = {**asdict(order), "config": str(order.config)}
        fields |= {"number": self._number, "answer": str(answer)}
        if order.spark and self._gateway is not None:
            fields["gateway"] = self._gateway()
        assert process.stdin is not None
        process.stdin.write(json.dumps(fields) + "\n")
        process.stdin.flush()
        with self._told:
            number = self._number
            there = self._told.wait_for(
                lambda: number in self._pids or process.poll() is not None, START_SECONDS
            )
            assert there, f"the runner says nothing, see {self.folder}"
            assert number in self._pids, f"the runner is gone, see {self.folder}"
            return Run(order, self._pids[number], answer)

    def wait(self, run: Run, seconds: float = STUCK_SECONDS) -> int | None:
        """The child's exit code; None if it still runs after so long."""
        number = int(run.answer.name.rpartition("-")[2])
        with self._told:
            if self._told.wait_for(lambda: number in self._codes, seconds):
                run.code = self._codes[number]
                run.ended = run.ended or time.monotonic()
        return run.code

    def run(self, order: Order) -> Run:
        """A child from start to end. What one that is stuck does is printed, as pytest shows it."""
        run = self.start(order)
        if self.wait(run) is None:
            log = self.folder / "runner.log"
            before = log.stat().st_size
            with contextlib.suppress(ProcessLookupError):
                os.kill(run.pid, signal.SIGUSR1)
            time.sleep(2)
            print(f"stuck for {STUCK_SECONDS:.0f} s:", log.read_bytes()[before:].decode())
            self.wait(run, PATIENCE)
        return run
