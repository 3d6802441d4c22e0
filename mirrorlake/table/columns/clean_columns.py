"""Clean's columns that nobody decided on, as the ledger knows them; no lake, no source.

What belongs here: which columns wait for the contract, and what is kept of the looks for personal
data. What doesn't: looking at the lake (`mirrorlake.table.columns.new_columns`,
`mirrorlake.serving.personal_audit`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any, Final

from mirrorlake.config.contract import Contract, TableContract
from mirrorlake.schema.versions import FIRST_CREATED

LOOKS: Final = "suspected_pii "
"""How the names of what the ledger keeps of looks begin; clean's own name follows."""


def unnamed_columns(
    contract: Contract, names: Iterable[str], known: Collection[str]
) -> tuple[str, ...]:
    """The columns that the contract does not name and that are not among the known (in lower case)
    ones: clean leaves them out, unless new columns are shown."""
    names = tuple(names)
    if shows_new(contract, names):
        return ()
    spoken = {*known, *contract.named}
    # An entity's own column is ours, not MySQL's.
    entity = contract.entity if isinstance(contract, TableContract) else None
    spoken |= {FIRST_CREATED} if entity is not None else set()
    # An earlier release knew a column by its name case-folded: to it "ß" was "ss".
    return tuple(n for n in names if n.lower() not in spoken and n.casefold() not in known)


def shows_new(contract: Contract, names: Iterable[str]) -> bool:
    """Whether clean shows columns that the contract does not name: where it says so, and no column
    is gone that a rule hides, for a new one may be that one, renamed."""
    there = {name.lower() for name in names}
    return contract.new_columns == "show" and there.issuperset(n.lower() for n in contract.rules)


def look_name(contract: Contract) -> str:
    """The name under which the ledger keeps the last look at a table's clean layer."""
    return f"{LOOKS}{contract.namespaces.clean}.{contract.table}"


def read_look(text: str | None) -> dict[str, Any]:
    """A look as the ledger keeps it: the snapshot, the columns that were sampled, and what was
    found of which."""
    return json.loads(text) if text else {"snapshot": None, "columns": [], "found": {}}


def undecided(contract: Contract, found: dict[str, str]) -> dict[str, str]:
    """Of what a look found, the columns of which the contract says nothing under ``columns``."""
    spoken = {name.lower() for name in contract.columns}
    return {name: words for name, words in found.items() if name.lower() not in spoken}
