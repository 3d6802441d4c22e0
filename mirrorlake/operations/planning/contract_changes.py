"""How the contracts of the working tree differ from those by which tables were last loaded.

The ledger keeps each contract as it was when all layers of its table were last up to date. What a
contract means to rows is in the receipt of the newest load, too (`mirrorlake.table.meaning`).

What belongs here: contracts. What doesn't: what MySQL changed
(`mirrorlake.operations.planning.drift`), and what is computed
(`mirrorlake.operations.planning.computed`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from mirrorlake.config import Config, Mirrored, TableContract
from mirrorlake.config.settings import ColumnRule
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger import Ledger, Receipt
from mirrorlake.operations.planning.computed import Computed, PlannedChange
from mirrorlake.operations.planning.reader_impacts import ModelImpact
from mirrorlake.operations.schema_changes.altered_tables import (
    AlteredCatalogue,
    AlteredTable,
    altered_by_rules,
)
from mirrorlake.operations.schema_changes.recorded_contracts import (
    contract_fields,
    recorded_contracts,
)
from mirrorlake.serving.catalogue import Catalogue
from mirrorlake.table.continuity import kept_words
from mirrorlake.table.meaning import edits_between, recorded_meaning, strongest, words_of


@dataclass(frozen=True)
class TableChange:
    """What became of one table's contract, or of its columns in MySQL.

    Attributes:
        words: what changed of it, one thing each.
        readers: where models read what breaks, with file, line and column.
    """

    table: str
    change: PlannedChange
    words: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()


def plan_contracts(
    config: Config, ledger: Ledger, catalogue: Catalogue, computed: Sequence[Computed]
) -> list[TableChange]:
    """Compare all contracts with those by which their tables were loaded, by name.

    Raises:
        LakeError, LedgerError: they can't be read.
    """
    recorded = recorded_contracts(ledger)
    contracts: list[Mirrored] = [*config.mirrored]
    altered: dict[str, dict[str, AlteredTable]] = {}
    for contract in contracts:
        before = recorded.get(contract.name)
        if before is not None and before.get("columns") != contract_fields(contract).get("columns"):
            names = {name.lower() for name in before.get("columns", {})}
            altered[contract.name] = altered_by_rules(catalogue, contract, names)
    changed = AlteredCatalogue(
        catalogue, {n: t for some in altered.values() for n, t in some.items()}
    )
    impacts = [impact for one in computed for impact in one.impacts(changed)]
    found = [
        _compared(ledger, contract, recorded.get(contract.name), catalogue, altered, impacts)
        for contract in contracts
    ]
    there = {contract.name for contract in contracts}
    found += [
        TableChange(name, "removed", ("it is no longer loaded; its lake tables stay",))
        for name in recorded
        if name not in there
    ]
    return sorted(found, key=lambda one: one.table)


def _compared(
    ledger: Ledger,
    contract: Mirrored,
    before: Mapping[str, Any] | None,
    catalogue: Catalogue,
    altered: Mapping[str, Mapping[str, AlteredTable]],
    impacts: Sequence[ModelImpact],
) -> TableChange:
    receipt = None
    if isinstance(contract, TableContract) and not contract.landed:
        receipt = ledger.newest_receipt(contract.name)
    if before is None and receipt is None:
        return TableChange(contract.name, "added")
    meaning, stops = _meaning(contract, receipt, known=before is not None)
    broken, lines = altered_words(
        AlteredCatalogue(catalogue, altered.get(contract.name, {})), impacts
    )
    if before is None:
        words = meaning or ["only mode, key and cursor are known of what it was loaded by"]
        change: PlannedChange = "changed" if meaning else "unchanged"
        return TableChange(contract.name, "breaking" if stops else change, tuple(words))
    lost = [*_moved(contract, before), *broken, *_never(contract, catalogue)]
    words = [*_differences(contract, before), *meaning, *lost]
    change = "changed" if words else "unchanged"
    change = "breaking" if stops or lost else change
    return TableChange(contract.name, change, tuple(words), tuple(lines))


def _meaning(contract: Mirrored, receipt: Receipt | None, *, known: bool) -> tuple[list[str], bool]:
    """What a contract requires because its rows mean something else, and whether it stops.

    Args:
        known: whether what changed is said already.
    """
    if not isinstance(contract, TableContract):
        return [], False
    edits, before = edits_between(receipt, contract), recorded_meaning(receipt)
    effect, kept = strongest(edits), kept_words(contract)
    if effect == "none" or before is None:
        return [], False
    words = [] if known else [words_of(edits)]
    elsewhere = before.raw != contract.namespaces.raw
    if effect == "begin" and kept and not (elsewhere or before.copies):
        return [*words, f"its next sync stops: a new history would lose {kept}"], True
    # What was deleted before its log is read is in no log.
    begins = effect == "begin" or (contract.by_log and not kept)
    history = ", and a new history begins" if begins else ""
    return [*words, f"the whole table is read again{history}"], False


def _moved(contract: Mirrored, before: Mapping[str, Any]) -> Iterator[str]:
    """The layers that have another name: readers find them under it alone."""
    for layer, space in contract_fields(contract)["namespaces"].items():
        was = before.get("namespaces", {}).get(layer, space)
        if was != space:
            old, new = f"{was}.{contract.table}", f"{space}.{contract.table}"
            yield f"{layer} is {new} then, and {old} stays as it is"


def altered_words(
    catalogue: AlteredCatalogue, impacts: Sequence[ModelImpact]
) -> tuple[list[str], list[str]]:
    """Of tables with other columns: what their readers lose, in words; and where models read it, or
    what becomes of them."""
    words = [f"{one.table}.{one.column} {one.words}" for one in catalogue.columns() if not one.fits]
    lines: list[str] = []
    for impact in impacts:
        if catalogue.altered.keys() & set(impact.tables):
            lines += impact.lines
    return words, list(dict.fromkeys(lines))


def _never(contract: Mirrored, catalogue: Catalogue) -> Iterator[str]:
    """Columns that are not to be read any more, and that the mirror holds."""
    table = catalogue.at(Identifier(contract.namespaces.deduped, contract.table))
    held = {column.lower() for column, _, _ in table.columns} if table is not None else set[str]()
    for column, rule in contract.columns.items():
        if rule.pci == "never" and column.lower() in held:
            yield f"its next sync stops: {column} is `pci: never`, and its mirror holds it"


def _differences(contract: Mirrored, before: Mapping[str, Any]) -> Iterator[str]:
    """What changed of a contract; what an older release did not have was as it is by default."""
    now, known = contract_fields(contract), type(contract).model_fields
    defaults = {
        name: None if field.is_required() else to_jsonable_python(field.default)
        for name, field in known.items()
    }
    for name in sorted({*before, *now} & known.keys() - {"columns", "namespaces"}):
        was, becomes = before.get(name, defaults[name]), now.get(name)
        if was != becomes:
            none = "null" if defaults[name] is not None else "not set"
            was, becomes = (none if one is None else _shown(one) for one in (was, becomes))
            yield f"{name} was {was}, is {becomes}"
    rules, rules_now = before.get("columns", {}), now.get("columns", {})
    for column in sorted({*rules, *rules_now}):
        was, becomes = _rule(rules.get(column)), _rule(rules_now.get(column))
        if was != becomes:
            yield f"column {column} had {was}, has {becomes}"


_RULE = to_jsonable_python(ColumnRule.model_construct())
"""A rule that says nothing."""


def _rule(rule: Mapping[str, Any] | None) -> str:
    said = {n: value for n, value in (rule or {}).items() if value != _RULE.get(n, value)}
    return ", ".join(f"{name}: {_shown(value)}" for name, value in said.items()) or "no rule"


def _shown(value: object) -> str:
    """A setting as the file has it.

    >>> _shown(None), _shown(True), _shown(["id"]), _shown("PT30M")
    ('null', 'true', '[id]', 'PT30M')
    """
    return value if isinstance(value, str) else json.dumps(value).replace('"', "")
