"""Batches as processes of this machine: the same entry, for tests and for trying a contract."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg

from dagster_mirrorlake.batches.messages import FileMessages
from dagster_mirrorlake.batches.service import BatchState

ENTRY = "dagster_mirrorlake.batches.entry"


@dataclass
class LocalBatches:
    """Batches that end with the process that started them.

    Attributes:
        folder: where what they say is written.
    """

    config: str
    folder: Path
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    poll_seconds: float = 0.2
    _started: "dict[str, subprocess.Popen[bytes]]" = field(
        default_factory=dict[str, "subprocess.Popen[bytes]"], repr=False
    )

    def look(self, name: str) -> BatchState | None:
        started = self._started.get(name)
        if started is None:
            return None
        code = started.poll()
        return "open" if code is None else "succeeded" if code == 0 else "failed"

    def start(self, name: str, arguments: list[str]) -> None:
        if name not in self._started:
            command = [sys.executable, "-m", ENTRY, *arguments]
            self._started[name] = subprocess.Popen(command)

    def why(self, name: str) -> str:
        return f"its process ended with {self._started[name].returncode}"

    def cancel(self, name: str) -> None:
        started = self._started[name]
        started.terminate()
        started.wait()

    def messages(self, name: str) -> dg.PipesMessageReader:
        return FileMessages(self.folder / name)
