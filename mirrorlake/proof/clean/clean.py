"""A clean table held against deduped: every row is there once, as the contract's rules show it.

Both tables are read without Spark, one data file in memory at a time, and digested row by row:
deduped as `mirrorlake.proof.clean.rules` says that clean must show it, clean as it stands. Where
the sums differ, rows are compared by their digests, and only those that differ are read once more.
MySQL is not queried: that deduped is equal to it is proved elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorlake.config.contract import TableContract
from mirrorlake.config.settings import ColumnRule
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable, history, snapshot_property
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Ledger
from mirrorlake.proof.clean.findings import CleanDifference, CleanLook
from mirrorlake.proof.clean.shown_rows import CleanRows
from mirrorlake.proof.forms.canonical import ORIGINALS
from mirrorlake.proof.forms.cells import digests_of, sum_of, written_as
from mirrorlake.proof.forms.differences import Value
from mirrorlake.proof.ranges.ranges import Tally, Verdict
from mirrorlake.runtime.repeats import Spool

MOST = 1_000
"""Digests that differ and are looked at row by row, at most."""
ROUNDS = 3
"""How often it begins again because a fold came in between."""


@dataclass(frozen=True)
class _State:
    """Of what a comparison speaks: heads, loads in both layers, and how deletes were folded."""

    heads: tuple[int | None, int | None]
    folded: tuple[frozenset[int], frozenset[int]]
    deletes: tuple[str, str]


def prove_clean(
    lake: Lake,
    ledger: Ledger,
    contract: TableContract,
    hash_key: bytes | None,
    held: Collection[str] = (),
) -> CleanLook:
    """Compare a clean table with deduped, every row in every column.

    ``undecided`` where they hold other loads, or a fold works on them; never ``equal`` over nothing
    that was folded.

    Args:
        held: columns without a rule that clean must leave out all the same.

    Raises:
        LakeError: deduped is not there, or either can't be read.
        ProofError: a rule can't be stated, or its key is missing.
    """
    columns = {**contract.columns, **dict.fromkeys(held, ColumnRule(pii="drop"))}
    contract = contract.model_copy(update={"columns": columns})
    before = _load(lake, ledger, contract)
    for _ in range(ROUNDS):
        deduped, clean, state = before
        if deduped is None:
            raise LakeError(
                f"deduped table {_identifiers(contract)[0]} is not there",
                table=contract.name,
                next_step="Sync it first",
            )
        look = _Comparison(lake, ledger, contract, hash_key, state).run(deduped, clean)
        before = _load(lake, ledger, contract)
        if before[2] == state:
            return look
    why = "folds came in between each time it was compared"
    return _undecided(contract, before[2], why)


def _load(
    lake: Lake, ledger: Ledger, contract: TableContract
) -> tuple[LakeTable | None, LakeTable | None, _State]:
    deduped, clean = (lake.load(one) for one in _identifiers(contract))
    return deduped, clean, _state(ledger, contract, deduped, clean)


def _identifiers(contract: TableContract) -> tuple[Identifier, Identifier]:
    spaces = contract.namespaces
    return Identifier(spaces.deduped, contract.table), Identifier(spaces.clean, contract.table)


def _state(
    ledger: Ledger, contract: TableContract, deduped: LakeTable | None, clean: LakeTable | None
) -> _State:
    names = [f"deletes {one}" for one in _identifiers(contract)]
    rules = [ledger.definition(name) or "remove" for name in names]
    current = {load.seq for load in ledger.successful_loads(contract.name)}
    layers = ("deduped", "clean")
    folded = [frozenset(current & ledger.folded_loads(contract.name, one)) for one in layers]
    return _State((_head(deduped), _head(clean)), (folded[0], folded[1]), (rules[0], rules[1]))


def _head(table: LakeTable | None) -> int | None:
    snapshot = table.current_snapshot() if table is not None else None
    return snapshot.snapshot_id if snapshot is not None else None


def _undecided(contract: TableContract, state: _State, why: str) -> CleanLook:
    nothing = Tally(0, 0)
    return CleanLook(
        "undecided", (why,), nothing, nothing, 0, 0, (), _named(contract, state), _through(state)
    )


def _named(contract: TableContract, state: _State) -> dict[str, int | None]:
    return dict(zip(map(str, _identifiers(contract)), state.heads, strict=True))


def _through(state: _State) -> int:
    return max(state.folded[0], default=0)


class _Comparison:
    """One comparison of the two tables as they were loaded."""

    def __init__(
        self,
        lake: Lake,
        ledger: Ledger,
        contract: TableContract,
        hash_key: bytes | None,
        state: _State,
    ) -> None:
        self._lake, self._ledger, self._contract = lake, ledger, contract
        self._hash_key, self._state = hash_key, state

    def run(self, deduped: LakeTable, clean: LakeTable | None) -> CleanLook:
        contract, state = self._contract, self._state
        if not state.folded[0]:
            return _undecided(contract, state, "nothing is folded yet: sync first")
        if state.folded[0] != state.folded[1]:
            words = "clean does not hold the loads that deduped holds: sync first"
            return _undecided(contract, state, words)
        if clean is None:
            return self._verdict((f"clean table {_identifiers(contract)[1]} is not there",))
        rows = self._rows(deduped, clean)
        expected, found = _tally(rows.expected()), _tally(rows.found())
        if expected == found and not rows.words:
            return self._verdict((), expected, found)
        if why := self._unfinished(deduped, clean):
            return _undecided(contract, state, why)
        missing, extra, differences = _Differing(rows, contract.key).find()
        return self._verdict(rows.words, expected, found, missing, extra, differences)

    def _rows(self, deduped: LakeTable, clean: LakeTable) -> CleanRows:
        ruled = {f.name: self._contract.column_rule(f.name) for f in deduped.schema().fields}
        columns = [name for name, rule in ruled.items() if rule is None or not rule.pci]
        pii = {n: rule.pii for n in columns if (rule := ruled[n]) is not None}
        rules = {name: rule for name, rule in pii.items() if rule is not None}
        return CleanRows.of(self._lake, deduped, clean, columns, rules, self._hash_key)

    def _verdict(
        self,
        words: tuple[str, ...],
        expected: Tally = Tally(0, 0),  # noqa: B008 - a frozen value
        found: Tally = Tally(0, 0),  # noqa: B008
        missing: int = 0,
        extra: int = 0,
        differences: tuple[CleanDifference, ...] = (),
    ) -> CleanLook:
        verdict: Verdict = "different" if words or expected != found else "equal"
        state = self._state
        named, through = _named(self._contract, state), _through(state)
        return CleanLook(
            verdict, words, expected, found, missing, extra, differences, named, through
        )

    def _unfinished(self, deduped: LakeTable, clean: LakeTable) -> str | None:
        """Why tables that differ may yet be what the ledger does not say of them."""
        contract = self._contract
        if self._ledger.is_held(contract.name):
            return "a run is writing the table: check again when it is done"
        for table in (deduped, clean):
            marks = (snapshot_property(snapshot, FOLDED) for snapshot in history(table))
            newest = next((int(mark) for mark in marks if mark is not None), 0)
            if newest > _through(self._state):
                return "a fold was committed that nobody recorded: sync first"
        if self._state.deletes != (contract.deletes, contract.deletes):
            return "what becomes of deleted rows was changed since the last fold: sync first"
        return None


def _tally(rows: Iterator[tuple[pa.RecordBatch, list[Any]]]) -> Tally:
    found = Tally(0, 0)
    for batch, cells in rows:
        found += Tally(batch.num_rows, sum_of(digests_of(cells, batch.num_rows)))
    return found


# --- differences ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Differing:
    """The rows in which both sides differ.

    Attributes:
        key: the key's columns, as the contract spells them.
    """

    rows: CleanRows
    key: tuple[str, ...]

    @property
    def _key(self) -> tuple[str, ...]:
        """The key's columns as clean spells them; none where clean does not show them all."""
        spelled = {name.lower(): name for name in self.rows.names}
        found = [spelled.get(name.lower()) for name in self.key]
        return tuple(name for name in found if name is not None) if all(found) else ()

    def find(self) -> tuple[int, int, tuple[CleanDifference, ...]]:
        """How many rows each side has more often, and the first of them one by one."""
        missing = extra = 0
        wanted: list[int] = []
        with Spool() as ours, Spool() as theirs:
            for spool, rows in ((ours, self.rows.expected()), (theirs, self.rows.found())):
                for batch, cells in rows:
                    spool.add(digests_of(cells, batch.num_rows).view(np.int64))
            for left, right in zip(ours.parts(), theirs.parts(), strict=True):
                balance = _balance(left, right)
                missing += sum(count for count in balance.values() if count > 0)
                extra -= sum(count for count in balance.values() if count < 0)
                wanted += list(balance)[: MOST - len(wanted)]
        if not wanted:
            return missing, extra, ()
        sides = [self._pick(rows, wanted) for rows in (self.rows.expected(), self.rows.found())]
        return missing, extra, tuple(self._paired(*sides))

    def _pick(
        self, rows: Iterator[tuple[pa.RecordBatch, list[Any]]], wanted: Sequence[int]
    ) -> dict[Any, list[tuple[tuple[Value, ...], tuple[bytes, ...]]]]:
        """Rows with these digests: by their key's forms (their own, without one), the key's values
        and the forms of all cells."""
        found: dict[Any, list[tuple[tuple[Value, ...], tuple[bytes, ...]]]] = defaultdict(list)
        numbers = [self.rows.names.index(name) for name in self._key]
        for batch, columns in rows:
            digests = digests_of(columns, batch.num_rows).view(np.int64)
            chosen = pa.array(np.flatnonzero(np.isin(digests, wanted)))
            if not len(chosen):
                continue
            taken = [column.take(chosen) for column in columns]
            forms = zip(*(written_as(column).to_pylist() for column in taken), strict=True)
            for at, cells in enumerate(forms):
                values = tuple(_value(self.rows.names[n], taken[n][at].as_py()) for n in numbers)
                key = tuple(cells[n] for n in numbers) or cells
                found[key].append((values, cells))
        return found

    def _paired(self, ours: Mapping[Any, Any], theirs: Mapping[Any, Any]) -> list[CleanDifference]:
        found: list[CleanDifference] = []
        for key in sorted({*ours, *theirs}, key=repr):
            expected, there = list(ours.get(key, ())), list(theirs.get(key, ()))
            for row in [row for row in expected if row in there]:
                if row in there:
                    expected.remove(row)
                    there.remove(row)
            if self._key:
                for (values, mine), (_, other) in zip(expected, there, strict=False):
                    names = (*self.rows.names, ORIGINALS)
                    pairs = zip(names, mine, other, strict=True)
                    columns = tuple(name for name, a, b in pairs if a != b)
                    found.append(CleanDifference("changed", values, columns))
                both = min(len(expected), len(there))
                expected, there = expected[both:], there[both:]
            found += [CleanDifference("missing", values) for values, _ in expected]
            found += [CleanDifference("extra", values) for values, _ in there]
        return found


def _balance(left: Any, right: Any) -> dict[int, int]:
    """Of each digest that both sides do not have equally often, by how many the first has more."""
    counts: dict[int, int] = {}
    if len(left) == len(right) and np.array_equal(np.sort(left), np.sort(right)):
        return counts
    for side, sign in ((left, 1), (right, -1)):
        values, numbers = np.unique(side, return_counts=True)
        for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + sign * number
    return {value: count for value, count in counts.items() if count}


def _value(column: str, value: Any) -> Value:
    if isinstance(value, bytes):
        return Value(column, f"0x{value.hex().upper()}")
    return Value(column, None if value is None else str(value), isinstance(value, str))
