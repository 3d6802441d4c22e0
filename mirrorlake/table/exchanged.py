"""Columns that may have got each other's names, past a rule that hides one of them.

Rules go by name. After ``RENAME COLUMN mail TO note, RENAME COLUMN note TO mail`` the same names
are there, and ``note`` has what was hidden as ``mail``. The same is so after ``DROP COLUMN note,
RENAME COLUMN mail TO note``. Neither the names nor the types tell that from columns that were
moved, or from one that was dropped. So both are held out of clean until the contract's rule of one
of them changes, or a person says that the rules mean the columns of now.

What belongs here: which columns may have been exchanged, as far as their names, types and order
tell, and what the ledger keeps of it. What doesn't: what rows tell
(`mirrorlake.operations.exchanged_columns`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mirrorlake.config.contract import TableContract
from mirrorlake.ledger import Ledger
from mirrorlake.schema.versions import without_width

EXCHANGED: Final = "exchanged "
"""How the names begin of what the ledger keeps of it; the raw table's own follows."""
Pair: TypeAlias = tuple[str, str]
"""A column that a rule hides, and one that may have its values now; in lower case."""
ColumnTypes: TypeAlias = Sequence[tuple[str, str]]
"""Columns in the server's order: name and type."""


def may_be_exchanged(
    contract: TableContract, before: ColumnTypes, now: ColumnTypes
) -> tuple[Pair, ...]:
    """The pairs of columns of which the second may have what the first had, though the contract's
    rule for it is another.

    Args:
        before: the table's columns at its newest load; those that are never read, too.
    """
    was = {name.lower(): without_width(kind) for name, kind in before}
    there = {name.lower(): without_width(kind) for name, kind in now}
    found: list[Pair] = []
    for hidden in was:
        rule = contract.column_rule(hidden)
        if rule is None or not (rule.pii or rule.pci):
            continue
        for other in was.keys() & there.keys() - {hidden} - contract.earlier_names.keys():
            if contract.column_rule(other) == rule or there[other] != was[hidden]:
                continue
            if _may_have(other, hidden, was, there):
                found.append((hidden, other))
    return tuple(sorted(found))


def _may_have(other: str, hidden: str, was: Mapping[str, str], there: Mapping[str, str]) -> bool:
    """Whether a column may have what another one had, whose type it has now."""
    common = [name for name in there if name in was]
    if hidden not in there:
        if was[other] != there[other]:
            return True
        dropped = [name for name in was if name in common]
        renamed = [other if name == hidden else name for name in was if name != other]
        renamed = [name for name in renamed if name in common]
        return common != dropped or renamed == dropped
    if was[other] != there[other]:
        return was[hidden] != there[hidden]
    names_then, names_now = list(was), list(there)
    first = names_then.index(hidden) < names_then.index(other)
    return was[hidden] == there[hidden] and first != (
        names_now.index(hidden) < names_now.index(other)
    )


def exchanged_name(contract: TableContract) -> str:
    """The name under which the ledger keeps the pairs of a table."""
    return f"{EXCHANGED}{contract.namespaces.raw}.{contract.table}"


def rule_fields(contract: TableContract, column: str) -> Any:
    """What a contract says under ``columns`` of a column, whatever its case."""
    wanted = column.lower()
    rule = next((r for name, r in contract.columns.items() if name.lower() == wanted), None)
    return None if rule is None else rule.model_dump(mode="json", exclude_none=True)


def record_exchanged(ledger: Ledger, contract: TableContract, pairs: Iterable[Pair]) -> None:
    """Keep pairs beside those that are undecided. The caller holds the table's lease."""
    name = exchanged_name(contract)
    known = ledger.definition(name)
    everything = sorted({*undecided_pairs(known, contract), *pairs})
    if not everything:
        return
    rules = {one: rule_fields(contract, one) for pair in everything for one in pair}
    text = json.dumps({"pairs": everything, "rules": rules}, ensure_ascii=False, sort_keys=True)
    if text != known:
        ledger.record_definition(name, text)


def undecided_pairs(recorded: str | None, contract: TableContract) -> tuple[Pair, ...]:
    """The pairs that the ledger keeps of a table and whose rules are the same as then."""
    if recorded is None:
        return ()
    said = json.loads(recorded)
    rules: Mapping[str, Any] = said["rules"]
    return tuple(
        (one, other)
        for one, other in said["pairs"]
        if all(rule_fields(contract, name) == rules[name] for name in (one, other))
    )


def exchanged_words(pairs: Iterable[Pair], table: str) -> str:
    """One line about such columns, and what to do.

    >>> exchanged_words([("mail", "note")], "s.d.t")[:60]
    'note may have what mail had, and both are held out of clean:'
    """
    said = "; ".join(f"{other} may have what {hidden} had" for hidden, other in pairs)
    return (
        f"{said}, and both are held out of clean: the columns were renamed into each other, moved "
        "or dropped, and rules go by name. Give each the rule of the values that it has now, or, "
        f"where the contract's rules are right, say so: mirrorlake accept --columns {table}"
    )
