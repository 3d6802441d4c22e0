"""Columns that may have got each other's names, past a rule that hides one of them.

Rules go by name. After ``RENAME COLUMN mail TO note, RENAME COLUMN note TO mail`` the same names
are there, and ``note`` has what was hidden as ``mail``. The same is so after ``DROP COLUMN note,
RENAME COLUMN mail TO note``. Neither the names nor the types tell that from columns that were
moved, or from one that was dropped. So both are held out of clean until the contract has another
rule for the second one, or a person says that the rules mean the columns of now.

What belongs here: which columns may have been exchanged, as far as their names, types and order
tell, and what the ledger keeps of it. What doesn't: what rows tell
(`mirrorlake.operations.schema_changes.exchanged_columns`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any, Final, TypeAlias

from mirrorlake.config.contract import Contract
from mirrorlake.ledger import Ledger
from mirrorlake.schema.versions import without_width
from mirrorlake.sources.mysql.types.registry import BYTES, INTEGERS, LABELS, TEXTS, TIMES

EXCHANGED: Final = "exchanged "
"""How the names begin of what the ledger keeps of it; the raw table's own follows."""
Pair: TypeAlias = tuple[str, str]
"""A column that a rule hides, and one that may have its values now; in lower case."""
ColumnTerms: TypeAlias = Mapping[str, Any] | None
"""What a contract says under ``columns`` of one."""
_NO_RULES: Final[Mapping[str, ColumnTerms]] = {}
ColumnTypes: TypeAlias = Sequence[tuple[str, str]]
"""Columns in the server's order: name and type."""


def may_be_exchanged(
    contract: Contract,
    before: ColumnTypes,
    now: ColumnTypes,
    rules: Mapping[str, ColumnTerms] = _NO_RULES,
) -> tuple[Pair, ...]:
    """The pairs of columns of which the second may have what the first had, though the contract's
    rule for it is another.

    Args:
        before: the table's columns at its newest load; those that are never read, too.
        rules: what the contract said then of each column, in lower case: a rule that was taken out
            with its column still tells that it was hidden.
    """
    was = {name.lower(): without_width(kind) for name, kind in before}
    there = {name.lower(): without_width(kind) for name, kind in now}
    # Such a hint says where the values came from: once, when its older name goes.
    explained = {
        name
        for name, earlier in contract.earlier_names.items()
        if any(one.lower() in was and one.lower() not in there for one in earlier)
    }
    # And of a column that is gone, where its values are now: under a name that was not there.
    followed = {
        one.lower()
        for name, earlier in contract.earlier_names.items()
        if name.lower() in there and name.lower() not in was
        for one in earlier
    }
    found: list[Pair] = []
    for hidden in was.keys() - (followed - there.keys()):
        hiding = {_hiding(rules.get(hidden)), _hiding(rule_fields(contract, hidden))} - {None}
        for other in was.keys() & there.keys() - {hidden} - explained:
            is_other = _hiding(rule_fields(contract, other)) not in hiding
            if not hiding or not is_other or _kind_of(there[other]) != _kind_of(was[hidden]):
                continue
            if _may_have(other, hidden, was, there):
                found.append((hidden, other))
    return tuple(sorted(found))


def may_be_renamed(
    contract: Contract, before: Iterable[str], now: Iterable[str]
) -> tuple[Pair, ...]:
    """The pairs of a column that a rule hides and that is gone, and a new one that the contract
    does not name: it may be that column, renamed.

    Of tenants, whose deduped keeps the column: a plain table's new columns are held out while a
    rule's column is gone (`shows_new`).

    Args:
        before, now: the names of its columns.
    """
    was, there = ({name.lower() for name in names} for names in (before, now))
    explained = {
        one for name, earlier in contract.earlier_names.items() if name in there for one in earlier
    }
    gone = ({name.lower() for name in contract.rules} & was) - there - explained
    come = there - was - contract.named
    return tuple(sorted((hidden, other) for hidden in gone for other in come))


def _kind_of(column_type: str) -> str:
    """What types are alike in that one ``CHANGE`` renames a column and fits its values to another:
    texts and bytes, numbers, dates and times, in MySQL's words or the lake's; any other type is
    alike to itself alone.

    >>> _kind_of("varchar(20)") == _kind_of("text"), _kind_of("int") == _kind_of("date")
    (True, False)
    """
    base = column_type.lower().partition("(")[0].partition(" ")[0]
    if base in (*TEXTS, *LABELS, *BYTES, "string"):
        return "text"
    if base in INTEGERS or base in ("decimal", "float", "double", "long"):
        return "number"
    return "time" if base in (*TIMES, "timestamptz") else column_type


def _hiding(rule: ColumnTerms) -> tuple[str | None, str | None] | None:
    """What of a rule hides values; None where it shows them."""
    pii, pci = (rule.get("pii"), rule.get("pci")) if rule is not None else (None, None)
    return None if pii in (None, "show") and pci is None else (pii, pci)


def _may_have(other: str, hidden: str, was: Mapping[str, str], there: Mapping[str, str]) -> bool:
    """Whether a column may have what another one had; its type may have changed with its name."""
    common = [name for name in there if name in was]
    if hidden not in there:
        if was[other] != there[other]:
            return True
        dropped = [name for name in was if name in common]
        renamed = [other if name == hidden else name for name in was if name != other]
        renamed = [name for name in renamed if name in common]
        return common != dropped or renamed == dropped
    if was[other] != there[other] and was[hidden] != there[hidden]:
        return True
    names_then, names_now = list(was), list(there)
    first = names_then.index(hidden) < names_then.index(other)
    return first != (names_now.index(hidden) < names_now.index(other))


def exchanged_name(contract: Contract) -> str:
    """The name under which the ledger keeps the pairs of a table."""
    return f"{EXCHANGED}{contract.namespaces.raw}.{contract.table}"


def rule_fields(contract: Contract, column: str) -> ColumnTerms:
    """What a contract says under ``columns`` of a column, whatever its case."""
    wanted = column.lower()
    rule = next((r for name, r in contract.columns.items() if name.lower() == wanted), None)
    return None if rule is None else rule.model_dump(mode="json", exclude_none=True)


def record_exchanged(ledger: Ledger, contract: Contract, pairs: Iterable[Pair]) -> None:
    """Keep pairs beside those that are undecided; those that were decided are forgotten, whatever
    their rules become. The caller holds the table's lease."""
    name = exchanged_name(contract)
    known = ledger.definition(name)
    everything = sorted({*undecided_pairs(known, contract), *pairs})
    if not everything:
        if known is not None:
            ledger.forget_definition(name)
        return
    rules = {other: rule_fields(contract, other) for _, other in everything}
    text = json.dumps({"pairs": everything, "rules": rules}, ensure_ascii=False, sort_keys=True)
    if text != known:
        ledger.record_definition(name, text)


def undecided_pairs(recorded: str | None, contract: Contract) -> tuple[Pair, ...]:
    """The pairs that the ledger keeps of a table, and of whose second column the contract says the
    same as then."""
    if recorded is None:
        return ()
    said = json.loads(recorded)
    rules: Mapping[str, Any] = said["rules"]
    return tuple(
        (one, other) for one, other in said["pairs"] if rule_fields(contract, other) == rules[other]
    )


def doubted_columns(
    recorded: str | None, contract: Contract, known: frozenset[str] | None
) -> set[str]:
    """The columns that such pairs hold out of clean, in lower case: both, but beside a new column,
    which has nothing of its own that the other one could have got, that one alone.

    Args:
        recorded: what the ledger keeps of a table.
        known: its known columns, in lower case; None where nobody knows them.
    """
    pairs = undecided_pairs(recorded, contract)
    hidden = {one for one, other in pairs if known is None or other in known}
    return hidden | {other for _, other in pairs}


def exchanged_words(pairs: Iterable[Pair], table: str) -> str:
    """One line about such columns, and what to do.

    >>> exchanged_words([("mail", "note")], "s.d.t")[:49]
    'note may have what mail had: held out of clean, a'
    """
    pairs = tuple(pairs)
    others = dict.fromkeys(other for _, other in pairs)
    said = "; ".join(f"{other} may have what {hidden} had" for hidden, other in pairs)
    return (
        f"{said}: held out of clean, as rules go by name and columns were renamed into each other, "
        f"moved or dropped. Give {' and '.join(others)} the rule of the values that "
        "it has now, or, where the contract's rules are right, say so: mirrorlake accept --columns "
        f"{quote(table)}"
    )
