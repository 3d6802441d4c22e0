"""Waiting for a lease that another run holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mirrorlake.errors import LeaseHeld


@dataclass
class Waiting:
    """A context manager that is tried again while another run holds the lease."""

    take: Callable[[], Any]
    deadline: float
    _held: Any = field(default=None, init=False)

    def __enter__(self) -> Any:
        while True:
            held = self.take()
            try:
                lease = held.__enter__()
            except LeaseHeld:
                if time.monotonic() >= self.deadline:
                    raise
                time.sleep(0.25)
            else:
                self._held = held
                return lease

    def __exit__(self, *error: Any) -> Any:
        return self._held.__exit__(*error)
