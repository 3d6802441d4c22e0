"""When what failed in a round is tried again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BACKOFF: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds until what failed is tried again; the last one from then on."""


@dataclass(frozen=True)
class Retry:
    """When something is tried again, and how often it failed."""

    at: float = 0.0
    failures: int = 0

    @property
    def is_due(self) -> bool:
        return self.at <= time.monotonic()

    def next(self, pauses: Sequence[float] = BACKOFF) -> Retry:
        """Once it failed again."""
        seconds = pauses[min(self.failures, len(pauses) - 1)]
        return Retry(time.monotonic() + seconds, self.failures + 1)


class Retries(dict[str, Retry]):
    """When what failed is tried again, by its name."""

    def is_due(self, name: str) -> bool:
        """Whether something may be tried now; what never failed may."""
        return self.get(name, Retry()).is_due

    def again(self, name: str) -> None:
        """Something failed, once more or for the first time."""
        self[name] = self.get(name, Retry()).next()
