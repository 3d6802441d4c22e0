"""Which of the days that models read are proved to be equal to the source.

A model's partition is as good as what it reads. Where the newest proofs of a mirrored table leave a
day open, a plan says so, and in whose words.

What belongs here: proofs as the ledger has them. What doesn't: checking
(`mirrorlake.proof.comparing.check`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta

from mirrorlake.config import Mirrored, TableContract, TenantTable
from mirrorlake.ledger import Ledger
from mirrorlake.models.compile.dependencies import Input, MirrorInput
from mirrorlake.operations.planning.planned_steps import UnprovedInput
from mirrorlake.proof.coverage.covered import is_covered
from mirrorlake.proof.coverage.days import Proved, proved_days
from mirrorlake.proof.coverage.open_checks import open_check_of
from mirrorlake.proof.coverage.outdated_proofs import aged_proofs
from mirrorlake.serving.catalogue import Catalogue

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class _TableProof:
    """What is proved of a table: some days, or all of it (``why`` is empty), or nothing."""

    contract: Mirrored
    begins: date | None
    proved: Proved | None
    why: str


@dataclass
class InputProofs:
    """The proofs of mirrored tables; each table is looked at once."""

    catalogue: Catalogue
    ledger: Ledger
    today: date
    _tables: dict[str, _TableProof] = field(default_factory=dict[str, _TableProof])

    def unproved(self, partitions: Iterable[Iterable[Input]]) -> list[UnprovedInput]:
        """What is not proved of what some partitions read.

        Args:
            partitions: what each of them reads.

        Raises:
            LedgerError: the ledger can't be read.
        """
        days: dict[str, set[date]] = {}
        count: dict[str, int] = {}
        for inputs in partitions:
            touched: dict[str, set[date]] = {}
            for one in inputs:
                if isinstance(one, MirrorInput):
                    found = self._look(one.table)
                    if found.why and one.days:
                        open_ = self._open_days(found, one)
                        if open_ is None or open_:
                            touched.setdefault(found.contract.name, set()).update(open_ or ())
            for table, some in touched.items():
                days.setdefault(table, set()).update(some)
                count[table] = count.get(table, 0) + 1
        return [self._said(table, some, count[table]) for table, some in days.items()]

    def _said(self, table: str, days: set[date], partitions: int) -> UnprovedInput:
        why = next(one.why for one in self._tables.values() if one.contract.name == table)
        if not days:
            return UnprovedInput(table, why, None, None, None, partitions)
        return UnprovedInput(table, why, len(days), min(days), max(days), partitions)

    def _open_days(self, found: _TableProof, one: MirrorInput) -> set[date] | None:
        """The days that are read and not proved; None where it is about the whole table."""
        table = self.catalogue.table(one.table)
        if found.begins is None or table is None or table.day is None or one.column != table.day:
            return None
        begins, today = found.begins, self.today
        read = (_span(max(lo or begins, begins), min(hi or today, today)) for lo, hi in one.days)
        proved = found.proved
        return {day for days in read for day in days if proved is None or day not in proved}

    def _look(self, name: str) -> _TableProof:
        table = self.catalogue.table(name)
        assert table is not None  # noqa: S101
        contract = table.contract
        found = self._tables.get(contract.name)
        if found is None:
            found = self._tables[contract.name] = self._read(contract)
        return found

    def _read(self, contract: Mirrored) -> _TableProof:
        if isinstance(contract, TenantTable):
            return _TableProof(contract, None, None, self._of_tenants(contract))
        if contract.landed:
            return _TableProof(contract, None, None, self._of_snapshots(contract))
        name, ledger = contract.name, self.ledger
        mark = ledger.newest_mark(name)
        proofs, loads = ledger.proofs(name), ledger.successful_loads(name)
        proved = proved_days(proofs, loads, mark[0] if mark else None)
        begins = ledger.first_day(name) or contract.start
        unproved, wrong = ledger.unproved(name), open_check_of(ledger, name)
        if unproved is not None:
            return _TableProof(contract, begins, None, f"unproved: {unproved.reason}")
        if not proofs:
            return _TableProof(contract, begins, None, "never checked")
        if wrong is not None:
            return _TableProof(contract, begins, proved, wrong.words)
        if proved is None and self._is_whole(contract):
            return _TableProof(contract, None, None, "")
        return _TableProof(contract, begins, proved, "not compared since they were last written")

    def _is_whole(self, contract: TableContract) -> bool:
        """Whether proofs of all keys, each equal, are of the table as it is now."""
        current = [p for p in aged_proofs(self.ledger, contract.name) if p.asked != "partition"]
        newest = self.ledger.newest_success(contract.name)
        good = [
            (p.lo, p.hi)
            for p in current
            if p.verdict == "equal" and p.stale is None and p.through_seq >= newest
        ]
        return len(good) == len(current) and is_covered((None, None), good)

    def _of_snapshots(self, contract: TableContract) -> str:
        found = [p for p in self.ledger.layer_proofs(contract.name) if p.layer == "deduped"]
        if not found:
            return "never checked"
        verdict = found[-1].verdict
        return "" if verdict == "equal" else f"its newest check was {verdict}"

    def _of_tenants(self, contract: TenantTable) -> str:
        there = [one for one in self.ledger.tenants(contract.name).values() if one.gone_at is None]
        open_ = sum(one.verdict != "equal" for one in there)
        return f"{open_:,} of {len(there):,} tenants are not proved equal" if open_ else ""


def _span(first: date, last: date) -> Iterable[date]:
    return (first + n * _DAY for n in range((last - first).days + 1))
