"""What becomes of several tables, models or names that are worked on each for itself: one that
fails stops no other.

What belongs here: a result or an error, by name, and how several are gathered. What doesn't: what a
result is, and how either is printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from mirrorlake.errors import MirrorlakeError

T = TypeVar("T")
Failures: TypeAlias = list[tuple[str, MirrorlakeError]]
"""What failed, by name, in order."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of one table: a result, or the error that stopped it.

    Attributes:
        name: the table's, as ``source.database.table``.
        result: None where it failed.
    """

    name: str
    result: T | None = None
    error: MirrorlakeError | None = None

    @classmethod
    def of(cls, name: str, act: Callable[[], T | None]) -> Outcome[T]:
        """Do something with one table; what became of it."""
        try:
            return cls(name, act())
        except MirrorlakeError as error:
            return cls(name, error=error)


@dataclass(frozen=True)
class Outcomes(Generic[T]):
    """What became of several tables, each list in the order in which they ended.

    Attributes:
        results: of those that did not fail, and of which there was something to do.
    """

    results: list[T] = field(default_factory=list[T])
    failures: Failures = field(default_factory=Failures)

    def attempt(self, name: str, act: Callable[[], T | None]) -> Outcome[T]:
        """Do something with one table, and note what became of it."""
        return self.note(Outcome.of(name, act))

    def note(self, outcome: Outcome[T]) -> Outcome[T]:
        """Take up what became of one table."""
        if outcome.error is not None:
            self.failures.append((outcome.name, outcome.error))
        elif outcome.result is not None:
            self.results.append(outcome.result)
        return outcome

    @property
    def exit_code(self) -> int:
        """The first failure's; 0 where nothing failed."""
        return self.failures[0][1].exit_code if self.failures else 0
