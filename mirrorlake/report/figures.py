"""What a report says: of every table the figures that `status`, `gaps`, `status --history` and
checks have of it. Pure but for its forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from mirrorlake.ledger import MOVING, Proof, Repair
from mirrorlake.ledger.reports.since import LoadFigures
from mirrorlake.operations.status.attention import Attention
from mirrorlake.operations.status.copies import RecordedCopy
from mirrorlake.operations.status.history import History
from mirrorlake.operations.status.table_status import TableStatus
from mirrorlake.report.calendar import DayRun, DayState, count_days

TableProof: TypeAlias = Literal[
    "proved", "stale", "partly", "different", "undecided", "unknown", "not compared"
]
PROOFS: Final[Mapping[TableProof, str]] = {
    "proved": "every row that is old enough is equal to MySQL's, and nothing was loaded since",
    "stale": "every row was equal; something was loaded since",
    "partly": "some rows were found equal, not all were compared",
    "different": "the newest check of some rows found a difference that no later one found gone",
    "undecided": "the newest check could not decide",
    "unknown": "other hands changed the lake, or the table is marked unproved",
    "not compared": "no check has found rows of it equal; nothing is said of them",
}
"""What is known of a table as a whole."""


@dataclass(frozen=True)
class LoadedDays:
    """What loads did, by the day (UTC) on which they ended; one number for each day of the report.

    Attributes:
        rows: what loads read; of a table that is copied, the day's newest copy.
        bytes: of the files that they wrote to raw.
        behind: the longest time, in seconds, from the source's moment just before a load read to
            the load's end; None on a day without one.
        copies: whether ``rows`` are those of copies.
    """

    rows: Sequence[int | None]
    bytes: Sequence[int]
    behind: Sequence[float | None]
    copies: bool = False


@dataclass(frozen=True)
class CheckCosts:
    """What checks of a table took: how many there were by verdict, seconds, and bytes that MySQL
    sent for them."""

    verdicts: Mapping[str, int]
    seconds: float
    bytes: int

    @property
    def count(self) -> int:
        return sum(self.verdicts.values())


@dataclass(frozen=True)
class ReportFinding:
    """A check that found a difference, or a repair.

    Attributes:
        kind: ``found`` or ``repair``.
        at: when it began (UTC).
        words: what was found, or what came of it; no values of rows.
        good: whether it ended well; None where that is not known yet.
        evidence: paths of evidence files.
    """

    kind: Literal["found", "repair"]
    at: datetime
    words: str
    good: bool | None
    evidence: Sequence[str] = ()


@dataclass(frozen=True)
class ReportedTenant:
    """A tenant that is not mirrored, or was not found equal by its newest check."""

    name: str
    state: str
    verdict: str
    words: str


@dataclass(frozen=True)
class ReportedTable:
    """One table, or model.

    Attributes:
        table, mode: as `status` has them.
        status: the same; None of a model that nobody else changed.
        proof: what is known of it as a whole; None of a model, which is compared with nothing.
        by_copies: whether its calendar has the days on which copies were read, and not those of its
            rows.
        differences: how many rows differ by the newest check that found any and stands.
        proved_loads: how many loads were found equal before they became visible.
    """

    table: str
    mode: str
    status: TableStatus | None = None
    proof: TableProof | None = None
    days: Sequence[DayRun] = ()
    by_copies: bool = False
    loaded: LoadedDays | None = None
    history: History | None = None
    checks: CheckCosts | None = None
    findings: Sequence[ReportFinding] = ()
    copies: Sequence[RecordedCopy] = ()
    tenants: Sequence[ReportedTenant] = ()
    tenant_count: int = 0
    not_right: Sequence[Attention] = ()
    differences: int = 0
    proved_loads: int = 0


@dataclass(frozen=True)
class MirrorReport:
    """Everything that a page says.

    Attributes:
        name: the contract file's folder.
        made_at: when the ledger was read (UTC).
        first, last: its days (UTC), both included.
        loads: the number of the newest load that the ledger knew.
        not_right: what should be looked at, gravest first.
    """

    name: str
    made_at: datetime
    first: date
    last: date
    loads: int
    tables: Sequence[ReportedTable]
    not_right: Sequence[Attention] = ()

    @property
    def days(self) -> Mapping[DayState, int]:
        """How many days of tables there are of each state; of calendars of copies none."""
        return count_days(run for one in self.tables if not one.by_copies for run in one.days)

    @property
    def proofs(self) -> Mapping[TableProof, int]:
        """How many tables there are of each kind."""
        counted = [one.proof for one in self.tables if one.proof is not None]
        return {name: counted.count(name) for name in PROOFS if name in counted}


@dataclass(frozen=True)
class ReportWritten:
    """A page that was written.

    Attributes:
        path: where it is.
        bytes: how large it is.
        made_at: when the ledger was read (UTC).
        first: the first of its days (UTC).
        last: the last of them.
        tables: how many tables and models it has.
        proofs: how many tables there are of each kind: ``proved``, ``stale``, ``partly``,
            ``different``, ``undecided``, ``unknown``, ``not compared``.
        days: how many days of tables there are of each state: ``proved``, ``loaded``, ``stale``,
            ``different``, ``errored``, ``unknown``, ``not asked``.
        not_right: how many things should be looked at.
    """

    path: str
    bytes: int
    made_at: datetime
    first: date
    last: date
    tables: int
    proofs: Mapping[str, int] = field(default_factory=dict[str, int])
    days: Mapping[str, int] = field(default_factory=dict[str, int])
    not_right: int = 0

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return asdict(self)


def loaded_days(
    loads: Sequence[LoadFigures], first: date, count: int, *, copies: bool
) -> LoadedDays:
    """What successful loads did on each of so many days from the first one on."""
    rows: list[int | None] = [None] * count
    sizes, behind = [0] * count, list[float | None]([None] * count)
    for load in loads:
        if load.state != "success" or load.finished_at is None or load.moment is None:
            continue
        number = (load.finished_at.date() - first).days
        if not 0 <= number < count:
            continue
        rows[number] = load.rows if copies else (rows[number] or 0) + load.rows
        sizes[number] += load.bytes
        if load.kind in MOVING:
            lag = max(0.0, (load.finished_at - load.moment).total_seconds())
            behind[number] = max(behind[number] or 0.0, lag)
    return LoadedDays(rows, sizes, behind, copies)


def check_costs(proofs: Sequence[Proof]) -> CheckCosts:
    """What checks took; one with a range that differs found a difference."""
    order = ("different", "undecided", "equal")
    by_check: dict[str, list[Proof]] = {}
    for proof in proofs:
        by_check.setdefault(proof.check_id, []).append(proof)
    worst = [min((p.verdict for p in some), key=order.index) for some in by_check.values()]
    return CheckCosts(
        {name: worst.count(name) for name in reversed(order) if name in worst},
        sum(some[0].seconds for some in by_check.values()),
        sum(some[0].source_bytes for some in by_check.values()),
    )


def findings_of(proofs: Sequence[Proof], repairs: Sequence[Repair]) -> list[ReportFinding]:
    """Checks that found a difference, and repairs; the newest first."""
    checks = {p.check_id: p for p in proofs if p.verdict == "different"}
    found = [
        ReportFinding("found", p.started_at, _found_words(p), False, (p.evidence,))
        for p in checks.values()
    ]
    found += [
        ReportFinding("repair", r.started_at, _repair_words(r), _ENDS.get(r.outcome), r.evidence)
        for r in repairs
    ]
    return sorted(found, key=lambda one: one.at, reverse=True)


_ENDS: Final = {"equal": True, "different": False, "failed": False, "interrupted": False}
_ASKED: Final[Mapping[str, str]] = {
    "full": "the whole table",
    "next": "a chunk of keys",
    "keys": "a range of keys",
    "where": "rows by a condition",
}


def _found_words(proof: Proof) -> str:
    rows = f"{proof.differences:,} {'row differs' if proof.differences == 1 else 'rows differ'}"
    scope = f"day {proof.day}" if proof.day else _ASKED.get(proof.asked, proof.asked)
    return f"{rows}; compared: {scope}"


def _repair_words(repair: Repair) -> str:
    ends = {
        "equal": "equal after it",
        "different": "still different after it",
        "undecided": "not decided after it",
        "begun": "it runs, or died",
    }
    keys = f"{repair.keys:,} {'key' if repair.keys == 1 else 'keys'} read again"
    return f"{repair.why}; {keys}; {ends.get(repair.outcome, repair.outcome)}"


def age_words(age: timedelta | float | None) -> str:
    """A length of time, in one unit or two.

    >>> age_words(42.0), age_words(3700.0), age_words(timedelta(days=3, hours=5)), age_words(None)
    ('42 s', '1 h 1 min', '3 d 5 h', '–')
    """
    if age is None:
        return "–"
    seconds = age.total_seconds() if isinstance(age, timedelta) else age
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    units = (("d", 86_400), ("h", 3_600), ("min", 60))
    number = next(n for n, (_, size) in enumerate(units) if seconds >= size)
    name, size = units[number]
    whole, rest = divmod(int(seconds), size)
    smaller = units[number + 1] if number + 1 < len(units) else None
    more = f" {rest // smaller[1]} {smaller[0]}" if smaller and rest >= smaller[1] else ""
    return f"{whole:,} {name}{more}"


def size_words(size: int | None) -> str:
    """Bytes in the unit that shows them best.

    >>> size_words(812), size_words(12_345), size_words(3_400_000_000), size_words(None)
    ('812 B', '12.3 kB', '3.4 GB', '–')
    """
    if size is None:
        return "–"
    amount, unit = float(size), 0
    while amount >= 999.5 and unit < 4:
        amount, unit = amount / 1000, unit + 1
    shown = f"{amount:.0f}" if unit == 0 or amount >= 100 else f"{amount:.1f}"
    return f"{shown} {('B', 'kB', 'MB', 'GB', 'TB')[unit]}"
