"""Columns that MySQL got after a table's first load: held out of clean until the contract names
them.

A column is *known* if it was there when the table was first loaded; the ledger keeps their names.
One that is not known may hold anything, so clean leaves it out, as `pii: drop` would, until the
contract names it: in a rule (`pii: show` is one) or in a role such as `cursor`. Raw and deduped
have it from its first load on. `new_columns: show` turns this off, and what it showed stays known;
but for a column that a rule hid, that MySQL dropped, and that comes back: it has the old values of
rows that only the mirror holds. While the contract has a rule for a column that MySQL dropped, new
ones are held out all the same: one may be that column, renamed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from mirrorlake.config.contract import Contract, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger.store import Ledger
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.table.columns.clean_columns import shows_new, unnamed_columns
from mirrorlake.table.columns.exchanged import (
    doubted_columns,
    exchanged_name,
    exchanged_words,
    undecided_pairs,
)

if TYPE_CHECKING:
    from mirrorlake.destinations.iceberg.lake import Lake

HIDDEN: Final = "hidden "
"""How the names begin of what the ledger keeps of columns that rules hid."""
NEXT_STEP = "give each a rule under `columns` in the contract; `pii: show` shows it as it is"


def held_columns(
    ledger: Ledger, lake: Lake, contract: TableContract, names: Iterable[str]
) -> tuple[str, ...]:
    """Those of a table's columns that clean leaves out because nobody decided on them yet: new
    ones, and those that may have what another one had.

    Args:
        names: the table's columns as MySQL names them, in order.
    """
    names = tuple(names)
    return held_by(
        contract,
        names,
        None if shows_new(contract, names) else known_columns(ledger, lake, contract),
        exchanged=ledger.definition(exchanged_name(contract)),
        hidden=ledger.definition(hidden_name(contract)),
    )


def held_by(
    contract: Contract,
    names: Sequence[str],
    known: frozenset[str] | None,
    *,
    exchanged: str | None,
    hidden: str | None,
) -> tuple[str, ...]:
    """The same, by what was read of the ledger already.

    Args:
        known: the known columns, in lower case; None where nobody knows them.
        exchanged, hidden: the ledger's definitions of these names.
    """
    held = doubted_columns(exchanged, contract, known)
    if shows_new(contract, names):
        held |= set(_hidden(hidden)["gone"]) - contract.named
    elif known is not None:
        held |= {name.lower() for name in unnamed_columns(contract, names, known)}
    return tuple(name for name in names if name.lower() in held)


def once_there(
    ledger: Ledger, contract: TableContract, versions: Iterable[SchemaVersion]
) -> frozenset[str]:
    """The columns that a table is known to have had, in lower case: of every schema version, and
    those that are never read and that it had when it was loaded.

    Args:
        versions: those seen of it.
    """
    read = (name.lower() for version in versions for name, _ in version.columns)
    recorded = ledger.definition(hidden_name(contract))
    return frozenset((*read, *_hidden(recorded)["hidden"]))


def _hidden(recorded: str | None) -> dict[str, list[str]]:
    """The columns that a rule of the contract ever hid, and those of them that MySQL dropped while
    nobody had shown them; all in lower case."""
    return json.loads(recorded) if recorded else {"hidden": [], "gone": []}


def hidden_name(contract: TableContract) -> str:
    """The name under which the ledger keeps which columns rules hid."""
    return f"{HIDDEN}{contract.namespaces.raw}.{contract.table}"


def _remember_hidden(ledger: Ledger, contract: TableContract, now: frozenset[str]) -> None:
    """Record which columns rules hid: one that MySQL dropped, and has again, is not shown before a
    person says so, for rows that only the mirror holds have the old values under its name."""
    before = _hidden(ledger.definition(hidden_name(contract)))
    shown = {name.lower() for name, rule in contract.columns.items() if rule.pii == "show"}
    rules = {name.lower() for name in (*contract.rules, *contract.excluded)}
    hidden = (set(before["hidden"]) | rules) - shown
    gone = ((set(before["gone"]) | (hidden - now)) & hidden) - (rules & now)
    found = {"hidden": sorted(hidden), "gone": sorted(gone)}
    if found != before:
        ledger.record_definition(hidden_name(contract), json.dumps(found, ensure_ascii=False))


def held_now(ledger: Ledger, lake: Lake, contract: TableContract) -> tuple[str, ...]:
    """The held columns of the newest schema version that was loaded, without asking the source."""
    versions = ledger.schema_versions(contract.name)
    names = [name for name, _ in versions[-1].columns] if versions else []
    return held_columns(ledger, lake, contract, names)


def known_columns(ledger: Ledger, lake: Lake, contract: TableContract) -> frozenset[str] | None:
    """The known columns of a table, in lower case; None if it was never loaded.

    A ledger that was rebuilt, or comes from an earlier release, has no record of them: then they
    are those that clean shows already, or, without a clean, those of the oldest schema version.
    """
    landed = contract.landed
    if not landed and ledger.last_load(contract.name, "success") is None:
        return None
    recorded = ledger.known_columns(contract.name)
    if recorded is not None:
        return recorded
    # PyIceberg takes seconds to import, and who only reports gets here seldom.
    from mirrorlake.destinations.iceberg.tables.views import shown_schema

    shown = shown_schema(lake, Identifier(contract.namespaces.clean, contract.table))
    if shown is not None:
        return frozenset(field.name.lower() for field in shown.fields)
    versions = [] if landed else ledger.schema_versions(contract.name)
    return frozenset(name.lower() for name, _ in versions[0].columns) if versions else None


def remember_columns(
    ledger: Ledger, lake: Lake, contract: TableContract, names: Iterable[str]
) -> None:
    """Record the known columns before a load (of a table of snapshots: before its view is made):
    all of the first one's, and under ``new_columns: show`` those that it adds. The caller holds the
    table's lease."""
    known = known_columns(ledger, lake, contract)
    now = frozenset(name.lower() for name in names)
    if known is None:
        known = now
    elif shows_new(contract, now):
        known |= now
    if not contract.landed:
        # One that MySQL dropped is new when it comes back: it may hold anything then.
        known &= now
        _remember_hidden(ledger, contract, now)
    if known != ledger.known_columns(contract.name):
        ledger.record_known_columns(contract.name, known)


def gone_words(gone: Iterable[str]) -> str:
    """One line about rules for columns that are gone.

    >>> gone_words(["mail", "fax"])[:61]
    'mail, fax: the contract has a rule for it, and MySQL has it n'
    """
    return (
        f"{', '.join(gone)}: the contract has a rule for it, and MySQL has it no longer: if it was "
        "renamed, move the rule to its new name (`renamed_from` keeps its old values), else remove "
        "the rule; new columns are held out of clean until then"
    )


def _held_words(held: Iterable[str], contract: Contract | None = None) -> str:
    """One line about held columns, and what to do.

    >>> _held_words(["note"])[:42]
    'note: new in MySQL, and held out of clean:'
    """
    landed = contract is not None and contract.landed
    where = "the schema that lands" if landed else "MySQL"
    return f"{', '.join(held)}: new in {where}, and held out of clean: {NEXT_STEP}"


def why_held(ledger: Ledger, contract: Contract, held: Iterable[str]) -> list[str]:
    """Lines about held columns: those that may have what another one had, and those that are new.

    Args:
        held: as `held_columns` gives them.
    """
    pairs = undecided_pairs(ledger.definition(exchanged_name(contract)), contract)
    doubted = {name for pair in pairs for name in pair}
    new = [name for name in held if name.lower() not in doubted]
    lines = [exchanged_words(pairs, contract.name)] if pairs else []
    return [*lines, _held_words(new, contract)] if new else lines
