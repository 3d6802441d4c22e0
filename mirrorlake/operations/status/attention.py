"""What somebody should look at though nothing failed: layers that other hands moved, loads that are
not folded, columns that wait for a decision, rows that a check found different.

Read from the ledger alone, in a few statements for all tables: a sync says it each time, of the
tables that were unchanged, too.

What belongs here: what it is, by table, and in which words. What doesn't: the state of a table
(`mirrorlake.operations.status.status`), and what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Final, Protocol

from mirrorlake.config import Mirrored, TableContract, TenantTable
from mirrorlake.ledger import Hold, Ledger
from mirrorlake.ledger.records import Unproved
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.publishers import PUBLISHERS
from mirrorlake.operations.tenants.results import TenantsSynced
from mirrorlake.proof.coverage.open_checks import OpenCheck, find_open_checks
from mirrorlake.runtime.plural import plural
from mirrorlake.table.columns.exchanged import EXCHANGED, exchanged_name
from mirrorlake.table.columns.new_columns import HIDDEN, held_by, hidden_name, why_held
from mirrorlake.table.holds import hold_words
from mirrorlake.table.surplus import SURPLUS, surplus_words

_LABELS: Final = {
    "failed": "failed or never loaded",
    "moved": "moved by other hands",
    "unknown": "with loads that the lake lost",
    "put right": "put right",
    "unproved": "unproved",
    "held back": "held back by a prepared transaction",
    "waiting": "not complete",
    "different": "different by a check",
    "surplus": "with rows that only the mirror has",
    "held columns": "with columns held out of clean",
    "snapshots": "with snapshots to decide on",
}

_TENANTS: Final = 3
"""Tenants that are named, at most."""


def labels() -> Mapping[str, str]:
    """What is counted of each kind, as it stands behind a number of tables; gravest first. What is
    not published as it is has its publisher's name as its kind."""
    published = {name: f"not in {one.title} as they are" for name, one in PUBLISHERS.added.items()}
    return {**_LABELS, **published, "held": "held"}


@dataclass(frozen=True)
class Attention:
    """One thing about one table that is not as it should be.

    Attributes:
        kind: see `labels`; ``held`` is what a person asked for, and no fault.
        words: what it is, and what to do.
    """

    table: str
    kind: str
    words: str


class ColumnFacts(Protocol):
    """What the ledger says of the columns of all tables."""

    @property
    def columns(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def known_columns(self) -> Mapping[str, frozenset[str]]: ...
    @property
    def exchanged(self) -> Mapping[str, str]: ...
    @property
    def hidden(self) -> Mapping[str, str]: ...


def undecided_columns(contract: TableContract, known: ColumnFacts) -> tuple[str, ...]:
    """The columns that clean leaves out until a person decides: new ones, and those that may have
    what another one had."""
    return held_by(
        contract,
        known.columns.get(contract.name, ()),
        known.known_columns.get(contract.name),  # none where no load of this release was
        exchanged=known.exchanged.get(exchanged_name(contract)),
        hidden=known.hidden.get(hidden_name(contract)),
    )


@dataclass(frozen=True)
class LedgerFacts:
    """What the ledger says of all tables at once."""

    unproved: Mapping[str, Unproved]
    behind: frozenset[str]
    chunked: frozenset[str]
    holds: Mapping[str, Hold]
    columns: Mapping[str, Sequence[str]]
    known_columns: Mapping[str, frozenset[str]]
    exchanged: Mapping[str, str]
    hidden: Mapping[str, str]
    surplus: Mapping[str, str]
    open_checks: Mapping[str, OpenCheck]
    different_layers: Mapping[str, Mapping[str, str]]


def read_facts(ledger: Ledger, *, folds: bool = True) -> LedgerFacts:
    """The facts of now.

    Args:
        folds: whether loads are looked for that are not folded: of a long history that takes a
            while, and who just folded knows it.

    Raises:
        LedgerError: the ledger can't be read.
    """
    return LedgerFacts(
        unproved=ledger.unproved_tables(),
        behind=frozenset(ledger.unfolded_tables("deduped") if folds else ()),
        chunked=frozenset(ledger.chunked_tables()),
        holds={hold.source: hold for hold in ledger.holds()},
        columns=ledger.newest_columns(),
        known_columns=ledger.all_known_columns(),
        exchanged=ledger.definitions(EXCHANGED),
        hidden=ledger.definitions(HIDDEN),
        surplus=ledger.definitions(SURPLUS),
        open_checks=find_open_checks(ledger),
        different_layers=ledger.different_layers(),
    )


def attention_of(ledger: Ledger, contract: TableContract, facts: LedgerFacts) -> list[Attention]:
    """What the ledger knows of one table that is not as it should be.

    Raises:
        LedgerError: the ledger can't be read.
    """
    name, found = contract.name, list[Attention]()

    def add(kind: str, words: str) -> None:
        found.append(Attention(name, kind, words))

    if mark := facts.unproved.get(name):
        add("unproved", f"{mark.reason}: its next load reads it as a whole")
    if name in facts.behind:
        add("waiting", f"loads are not folded: `mirrorlake sync {quote(name)}` folds them")
    if name in facts.chunked:
        add("waiting", f"a load is not read to its end: `mirrorlake sync {quote(name)}` resumes it")
    check = facts.open_checks.get(name)
    if check is not None and check.verdict == "different":
        what = plural(check.rows, "row differs", "rows differ")
        words = f"{what} by a check of {check.at:%Y-%m-%d %H:%M}, and none found them equal since"
        add("different", f"{words}: `mirrorlake repair {quote(name)}` reads them again")
    found += layers_attention(contract, facts)
    if words := surplus_words(facts.surplus.get(SURPLUS + name)):
        add("surplus", f"{words}: `mirrorlake repair {quote(name)} --deletes` looks for them")
    for words in why_held(ledger, contract, undecided_columns(contract, facts)):
        add("held columns", words)
    if hold := facts.holds.get(contract.source):
        add("held", hold_words(hold))
    return found


def layers_attention(contract: TableContract, facts: LedgerFacts) -> Iterator[Attention]:
    """The layers of a table that were not as they should be by the newest look at each. Cuts are
    none of them: each is a state of its own, of which its own command tells."""
    name, remedy = contract.name, "refold" if contract.clean == "table" else "sync"
    for layer, found in facts.different_layers.get(name, {}).items():
        words = f"{layer}, by its newest check: {found}"
        if layer == "clean":
            words += f": `mirrorlake {remedy} {quote(name)}` makes it again, then check it"
        if not layer.startswith("cut: "):
            yield Attention(name, "different", words)


def tenants_attention(ledger: Ledger, table: TenantTable) -> Iterator[Attention]:
    """The tenants that differ by their newest checks.

    Raises:
        LedgerError: the ledger can't be read.
    """
    known = ledger.tenants(table.name).values()
    names = [f"{t.source}.{t.database}" for t in known if t.verdict_now == "different"]
    if names:
        more = f" and {len(names) - _TENANTS:,} more" if len(names) > _TENANTS else ""
        shown, called = ", ".join(names[:_TENANTS]) + more, quote(table.name)
        words = plural(len(names), "tenant differs", "tenants differ")
        yield Attention(
            table.name,
            "different",
            f"{words} by the newest check ({shown}): `mirrorlake tenants {called}` shows why, and "
            f"`mirrorlake sync {called} --tenant DATABASE --again` reads one again; then check it",
        )


def find_attention(
    ledger: Ledger,
    mirrored: Sequence[Mirrored],
    results: Sequence[SyncResult] = (),
    tenants: Sequence[TenantsSynced] = (),
) -> list[Attention]:
    """What is not as it should be after a sync of these tables, gravest first.

    Args:
        results: what the sync did.
        tenants: the same of tables of tenants.

    Raises:
        LedgerError: the ledger can't be read.
    """
    done = [*results, *tenants]
    found = [Attention(one.table, "put right", words) for one in done for words in one.put_right]
    found += [Attention(r.table, "held back", r.held_back) for r in results if r.held_back]
    if mirrored:
        facts = read_facts(ledger, folds=False)
        for contract in mirrored:
            # What is held is among the sync's outcomes.
            seen = (
                tenants_attention(ledger, contract)
                if isinstance(contract, TenantTable)
                else attention_of(ledger, contract, facts)
            )
            found += [x for x in seen if x.kind != "held"]
    found += [
        Attention(one.table, "held columns", words) for one in tenants for words in one.why_held
    ]
    return gravest_first(found)


def gravest_first(found: Sequence[Attention]) -> list[Attention]:
    """The same by `labels`, and by table."""
    order = list(labels())
    return sorted(found, key=lambda one: (order.index(one.kind), one.table))


def counts_of(found: Sequence[Attention]) -> dict[str, int]:
    """How many tables there are of each kind, in the words of `labels`.

    >>> counts_of([Attention("a", "held", ""), Attention("b", "put right", "")])
    {'put right': 1, 'held': 1}
    """
    tables: dict[str, set[str]] = {}
    for one in found:
        tables.setdefault(one.kind, set()).add(one.table)
    return {words: len(tables[kind]) for kind, words in labels().items() if kind in tables}
