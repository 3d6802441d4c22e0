"""Which partitions of models are to be computed now: missing or stale, of inputs that are complete.

An input is complete when nothing more is expected of the days that are read: a mirrored table is
known until the end of the last one, and no load of them failed; a model's partitions are computed.
A day that is not over waits.

What belongs here: the decision. What doesn't: states (`mirrorlake.models.partition_states.states`),
and starting runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from mirrorlake.config.contract import Mirrored, TableContract, TenantTable
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.records import age_of
from mirrorlake.models.compile.dependencies import MirrorInput
from mirrorlake.models.compile.model import Model
from mirrorlake.models.partition_states.cut_reads import ReadCut
from mirrorlake.models.partition_states.partition_state import PartitionState
from mirrorlake.models.partition_states.states import States
from mirrorlake.operations.days.gaps import find_stretches
from mirrorlake.serving.catalogue import Catalogue

_MOST_AT_ONCE = 1_000
"""Partitions of one model that are named at once; the others follow when these are computed."""


@dataclass(frozen=True)
class DueModel:
    """What is to be computed of one model.

    Attributes:
        states: of the partitions that are due, in the order of its scopes.
        waiting: partition → what it waits for, in a few words.
        missed: partitions that can't be computed any more.
    """

    model: str
    states: tuple[PartitionState, ...]
    waiting: dict[str, str] = field(default_factory=dict[str, str])
    missed: frozenset[str] = frozenset()


def find_due(states: States, now: datetime | None = None) -> list[DueModel]:
    """The models of which something is missing or stale, each after those that it reads. Those that
    a person alone computes are left out, and those of which a run computed something within their
    ``every``.

    Raises:
        LakeError: the lake can't be read.
        LedgerError: the ledger can't be read.
    """
    now = now or datetime.now(UTC)
    complete = _Complete(states.ledger, now)
    found = (
        _due(states, model, complete)
        for model in states.project.models.values()
        if _is_its_time(states, model, now)
    )
    return [one for one in found if one.states or one.waiting]


def _is_its_time(states: States, model: Model, now: datetime) -> bool:
    every = model.declaration.every
    if every is None:
        return False
    moments = [one.computed_at for one in states.records(model).values() if one.computed_at]
    return not moments or now - max(moments) >= every


def _due(states: States, model: Model, complete: _Complete) -> DueModel:
    due: list[PartitionState] = []
    waiting: dict[str, str] = {}
    missed: set[str] = set()
    for scope in model.scopes:
        state = states.of(model, scope)
        if state.word == "missed":
            missed.add(state.key)
        if not state.is_due:
            continue
        why = states.waiting_words(state.waits[0]) if state.waits else ""
        if not why:
            inputs = [one for one in states.read_by(model, scope) if isinstance(one, MirrorInput)]
            reading = states.readings.of(model)
            reasons = (complete.why_not(states.catalogue, one, reading.cut) for one in inputs)
            why = next((one for one in reasons if one), "")
        if why:
            waiting[state.key] = why
        elif len(due) < _MOST_AT_ONCE:
            due.append(state)
    return DueModel(model.name, tuple(due), waiting, frozenset(missed))


def may_lack(one: MirrorInput, day: str | None, first: date, last: date) -> bool:
    """Whether rows that an input reads may be among those of raw days that were not loaded.

    Args:
        day: the column that decides a row's raw day. Rows of any raw day may have any day of
            another one.
    """
    return bool(one.days) and (
        one.column != day
        or any((lo is None or lo <= last) and (hi is None or first <= hi) for lo, hi in one.days)
    )


class _Complete:
    """Until when mirrored tables are known; each is looked at once."""

    def __init__(self, ledger: Ledger, now: datetime) -> None:
        self._ledger, self._now = ledger, now
        self._through: dict[str, datetime | None] = {}
        self._failed: dict[str, list[tuple[date, date]]] = {}
        self._unread: dict[str, str | None] = {}

    def why_not(self, catalogue: Catalogue, one: MirrorInput, cut: ReadCut | None) -> str:
        """What is missing of the days that are read, in a few words; empty where nothing is.

        Args:
            cut: at which it is read.
        """
        mirrored = catalogue.table(one.table)
        assert mirrored is not None  # noqa: S101
        contract = mirrored.contract
        through = cut.at if cut is not None else self._until(contract)
        unread = self._unread_of(contract) if isinstance(contract, TenantTable) else None
        if unread is not None:
            return f"{unread} of {contract.name} was never read"
        if through is None:
            return f"{one.table} was never loaded"
        for first, last in self._failures(contract):
            if may_lack(one, mirrored.day, first, last):
                return f"{contract.name} was not loaded of {first}: its load failed"
        ends = [hi for _, hi in one.days if hi is not None]
        if not ends:
            return ""
        over = datetime.combine(max(ends) + timedelta(days=1), datetime.min.time(), UTC)
        if through < over:
            if cut is not None:
                return f"cut {cut.name} has what was until {through:%Y-%m-%d %H:%M} UTC"
            return f"{contract.name} is known until {through:%Y-%m-%d %H:%M} UTC"
        return ""

    def _until(self, contract: Mirrored) -> datetime | None:
        name = contract.name
        if name not in self._through:
            moments = list(
                self._tenants(contract)
                if isinstance(contract, TenantTable)
                else self._loads(contract)
            )
            self._through[name] = min(moments) if moments else None
        return self._through[name]

    def _loads(self, contract: TableContract) -> Iterator[datetime]:
        """When the source stood where deduped stands."""
        folded = self._ledger.folded_loads(contract.name, "deduped")
        held = [one for one in self._ledger.successful_loads(contract.name) if one.seq in folded]
        stamp = self._ledger.stamps([contract.name]).get(contract.name)
        newest = next(
            (one for one in reversed(held) if one.window.kind not in ("repair", "reload")), None
        )
        age = age_of(newest, self._now, stamp)
        if age is not None:
            yield self._now - age

    def _unread_of(self, table: TenantTable) -> str | None:
        """A tenant that is there and was never read; None where there is none."""
        if table.name not in self._unread:
            tenants = self._ledger.tenants(table.name).values()
            never = (t.database for t in tenants if not t.gone_at and t.read_at is None)
            self._unread[table.name] = next(never, None)
        return self._unread[table.name]

    def _tenants(self, table: TenantTable) -> Iterator[datetime]:
        for one in self._ledger.tenants(table.name).values():
            moments = [moment for moment in (one.read_at, one.seen_at) if moment is not None]
            if one.gone_at is None and moments:
                yield max(moments)

    def _failures(self, contract: Mirrored) -> list[tuple[date, date]]:
        if isinstance(contract, TenantTable) or contract.landed:
            return []
        found = self._failed.get(contract.name)
        if found is None:
            today = self._now.date()
            stretches = find_stretches(contract, self._ledger, today)
            found = self._failed[contract.name] = [
                (one.first or date.min, one.last) for one in stretches if one.state == "errored"
            ]
        return found
