"""A side's process, and the memory of it and of all that it started.

Source: proc(5), smaps_rollup: Pss counts a page that several processes share once.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.report import ROOT
from benchmarks.sides.job import Job, as_line

_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)
INTERVAL = 0.1


@dataclass(frozen=True)
class Run:
    """One answered job; memory in MB: the peaks of the whole tree, and of it without JVMs."""

    seconds: float
    rows: int
    peak: float
    peak_without_jvm: float


class Side:
    """A side's program, kept warm between its jobs."""

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.numbers = itertools.count()
        self._errors = (folder / "stderr.log").open("ab")
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def run(self, job: Job) -> Run:
        """Do one job, its memory watched.

        Raises:
            ClickException: the side failed; its log's last line is in the message.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with Watched(self._process.pid) as watched:
            stdin.write(as_line(job))
            stdin.flush()
            line = stdout.readline()
        if not line:
            last = (self.folder / "stderr.log").read_text().strip().splitlines()[-1:]
            raise click.ClickException(f"{self.name} failed: {''.join(last)}")
        answer: dict[str, Any] = json.loads(line)
        return Run(answer["seconds"], answer["rows"], watched.peak, watched.peak_without_jvm)

    def close(self) -> None:
        """End the program."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


def python_side(name: str, module: str, folder: Path) -> Side:
    """A side that is a module of this environment."""
    return Side(name, [sys.executable, "-m", module], folder)


class Watched:
    """Samples a process tree's memory every ``interval`` seconds until the block ends."""

    def __init__(self, pid: int, interval: float = INTERVAL) -> None:
        self._pid = pid
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak = 0.0
        self.peak_without_jvm = 0.0

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            found = [(_is_java(pid), _memory(pid)) for pid in process_tree(self._pid)]
            self.peak = max(self.peak, sum(size for _, size in found))
            without = sum(size for java, size in found if not java)
            self.peak_without_jvm = max(self.peak_without_jvm, without)
            if self._stop.wait(self._interval):
                return


def process_tree(root: int) -> list[int]:
    """A process, and all that it and its children started, as far as they run now."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            parent = _parent(folder)
            children.setdefault(parent, []).append(int(folder.name))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return False


def _memory(pid: int) -> float:
    """MB; 0 for a process that has ended."""
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0
