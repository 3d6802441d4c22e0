"""Something is declared invalid: days of a mirrored table, or partitions of a model; and all that
derives from it, as somebody chooses.

What belongs here: from words to dirty marks. What doesn't: which partitions derive
(`mirrorlake.operations.planning.computed`), and putting it right
(`mirrorlake.operations.planning.work`).
"""

from __future__ import annotations

import getpass
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from shlex import quote

from mirrorlake.config import Config, Mirrored, TableContract, TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.operations.planning.computed import Computed, NamedPartitions


@dataclass(frozen=True)
class Declared:
    """What was declared invalid.

    Attributes:
        declaration: its id.
        target: the mirrored table or model.
        first, last: days of a mirrored table; None: all.
        partitions: model → its partitions, those of the target first.
        reads_again: whether the mirrored table itself is to be loaded again; not one of tenants, or
            that is kept by snapshots.
    """

    declaration: str
    target: str
    first: date | None
    last: date | None
    partitions: Mapping[str, tuple[str, ...]]
    reads_again: bool


def plan_declaration(
    config: Config,
    ledger: Ledger,
    computed: Sequence[Computed],
    target: NamedPartitions,
    choice: str,
    today: date,
) -> Declared:
    """What would be declared invalid; nothing is written.

    Args:
        computed: what derives is looked for in it.
        choice: as `mirrorlake.operations.planning.computed.Computed.derived` takes it.
        today: UTC.

    Raises:
        ConfigError, ModelError: there is no such table or model, or no such days or partitions; or
            what derives from it can't be said.
    """
    declaration = uuid.uuid4().hex[:12]
    for one in computed:
        own = one.declared(target, choice)
        if own is not None:
            return Declared(declaration, own[0], None, None, own[1], reads_again=False)
    contract = _contract(config, target)
    reads_again = isinstance(contract, TableContract) and not contract.landed
    first, last = _days(ledger, contract, target, today) if reads_again else (None, None)
    if not reads_again:
        first, last = target.first, target.last
    names = (contract.namespaces.deduped, contract.namespaces.clean)
    tables = frozenset(str(Identifier(space, contract.table)).lower() for space in names)
    partitions = {
        name: keys
        for one in computed
        for name, keys in one.derived(tables, (first, last), choice).items()
    }
    if not reads_again and not partitions:
        raise ConfigError(
            f"{contract.name} is not loaded by days, and no chosen model derives from it: nothing "
            "is to be declared",
            next_step=_loaded_by(contract),
        )
    return Declared(declaration, contract.name, first, last, partitions, reads_again=reads_again)


def declare(ledger: Ledger, declared: Declared, reason: str) -> None:
    """Write down what was planned.

    Raises:
        LedgerError: it could not be written; nothing of it is.
    """
    by = _person()
    marks: list[DirtyMark] = []

    def mark(target: str, key: str | None, days: tuple[date | None, date | None]) -> None:
        first, last = days
        name, declaration = uuid.uuid4().hex, declared.declaration
        marks.append(DirtyMark(name, declaration, target, reason, by, key, first, last))

    if declared.reads_again:
        mark(declared.target, None, (declared.first, declared.last))
    for model, keys in declared.partitions.items():
        for key in keys:
            mark(model, key, (None, None))
    ledger.declare_invalid(marks)


def _contract(config: Config, target: NamedPartitions) -> Mirrored:
    contract = config.mirrored_table(target.name)
    if target.values:
        raise ConfigError(
            f"{contract.name} is a mirrored table: it has days, and no partitions with names",
            next_step="Give --from and --to",
        )
    return contract


def _loaded_by(contract: Mirrored) -> str:
    if isinstance(contract, TenantTable):
        return f"`mirrorlake sync {quote(contract.name)} --again` reads its tenants again"
    return f"`mirrorlake land {quote(contract.name)} --retry ID` takes a snapshot again"


def _days(
    ledger: Ledger, contract: Mirrored, target: NamedPartitions, today: date
) -> tuple[date | None, date | None]:
    """The days of a table that is read from a server, as it has them.

    Raises:
        ConfigError: the range is none, or nothing of it was ever loaded.
    """
    assert isinstance(contract, TableContract)  # noqa: S101
    first, last = target.first, target.last
    if first is not None and last is not None and first > last:
        raise ConfigError(
            f"{first} to {last} is no range of days", next_step="Give the earlier day first"
        )
    if ledger.last_load(contract.name, "success") is None:
        raise ConfigError(
            f"{contract.name} was never loaded: nothing of it can be invalid",
            next_step=f"mirrorlake sync {quote(contract.name)}",
        )
    if contract.copies:  # each copy is the whole table
        return first, last
    begins = contract.start or date.min
    known = ledger.first_day(contract.name) or begins
    first, last = max(first or known, begins), min(last or today, today)
    if first > last:
        raise ConfigError(
            f"{contract.name} has no day from {first} to {target.last or today}",
            next_step=f"Its days are {known} to {today}",
        )
    return first, last


def _person() -> str:
    """Who runs this, and where."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # an account without a name
        user = "an account without a name"
    return f"{user}@{socket.gethostname()}"
