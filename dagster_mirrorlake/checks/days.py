"""Days that a check reports one by one: each is a verdict on a partition of its asset."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.days import spans
from mirrorlake.config import TableContract
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace

_FAILING = 100
"""Days that fail and are reported, at most: the newest."""
NEWEST = 7
"""Newest days that are reported, whatever they are."""


@dataclass(frozen=True)
class Partition:
    """What a check found of one day."""

    passed: bool
    metadata: Mapping[str, Any]
    words: str | None
    severity: dg.AssetCheckSeverity


@dataclass(frozen=True)
class ReportedDays:
    """The days of a table that one of its checks reported as failed the last time."""

    workspace: Workspace
    contract: TableContract
    check: str
    begin: date | None = None
    """The table's first partition; no day before it is reported."""

    @property
    def _name(self) -> str:
        return f"{self.check} days {deduped_of(self.contract)}"

    def failed(self) -> list[date]:
        """In order."""
        days: list[str] = json.loads(self.workspace.ledger.definition(self._name) or "[]")
        return sorted(map(date.fromisoformat, days))

    def record(self, days: Iterable[date]) -> None:
        """Remember these; the ledger keeps no second copy of the same."""
        failed = sorted(days)
        if failed != self.failed():
            text = json.dumps([str(day) for day in failed])
            self.workspace.ledger.record_definition(self._name, text)

    def passed(self) -> tuple[set[date], int, int]:
        """The days that were reported as passed, and are not known to have changed since; the
        number of the newest load that was known then, and that of the newest event of Dagster's."""
        kept = json.loads(self.workspace.ledger.definition(f"passed {self._name}") or "{}")
        ends = [(date.fromisoformat(a), date.fromisoformat(b)) for a, b in kept.get("days", [])]
        lengths = (((last - first).days + 1, first) for first, last in ends)
        days = {first + timedelta(days=n) for count, first in lengths for n in range(count)}
        return days, int(kept.get("through", 0)), int(kept.get("event", 0))

    def record_passed(self, days: Iterable[date], through: int, event: int) -> None:
        """Remember these."""
        if (set(days), through, event) != self.passed():
            ends = [[str(first), str(last)] for first, last in spans(days)]
            text = json.dumps({"days": ends, "through": through, "event": event})
            self.workspace.ledger.record_definition(f"passed {self._name}", text)

    def choose(
        self, failing: Collection[date], known: Sequence[date], run_days: tuple[date, date] | None
    ) -> list[date]:
        """The days to report one by one: those that fail, those that failed the last time, the
        run's own, and the newest; none before the table's first partition, and none to come: a row
        may be dated in the future.

        Args:
            known: the days that can be reported, in order; of others nothing is said.
            run_days: the run's first and last day.
        """
        chosen = {*sorted(failing)[-_FAILING:], *self.failed(), *known[-NEWEST:]}
        if run_days:
            chosen |= {day for day in known if run_days[0] <= day <= run_days[1]}
        begin = self.begin or date.min
        # The calendar of a cursor may be a day ahead of ours.
        end = datetime.now(UTC).date() + timedelta(days=1)
        return sorted(day for day in chosen.intersection(known) if begin <= day <= end)
