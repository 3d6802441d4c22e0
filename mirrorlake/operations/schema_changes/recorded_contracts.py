"""Each contract as it was when all layers of its table were last up to date, from the ledger.

What belongs here: writing it down. What doesn't: what another one changes
(`mirrorlake.operations.planning.contract_changes`).
"""

from __future__ import annotations

import json
from typing import Any

from mirrorlake.config import Mirrored
from mirrorlake.ledger import Ledger

_OF_CONTRACT = "contract "
"""How the names of what the ledger keeps of contracts begin; the table's name follows."""
_OF_LAYER = {"snapshot", "terms"}
"""In an earlier release the check `contract` of a layer kept what it had seen under such a name."""
_NAME = ("source", "database", "table", "group")


def record_contract(ledger: Ledger, contract: Mirrored) -> None:
    """Keep a contract as its table's layers are now; nothing is written where that is the same."""
    if not is_recorded(ledger, contract):
        ledger.record_definition(f"{_OF_CONTRACT}{contract.name}", _text(contract))


def is_recorded(ledger: Ledger, contract: Mirrored) -> bool:
    """Whether the ledger keeps this very contract of its table."""
    return ledger.definition(f"{_OF_CONTRACT}{contract.name}") == _text(contract)


def _text(contract: Mirrored) -> str:
    return json.dumps(contract_fields(contract), sort_keys=True)


def recorded_contract(ledger: Ledger, contract: Mirrored) -> dict[str, Any] | None:
    """What the ledger keeps of one table's contract, as `contract_fields` gives it."""
    text = ledger.definition(f"{_OF_CONTRACT}{contract.name}")
    fields = json.loads(text) if text is not None else None
    return None if fields is None or fields.keys() == _OF_LAYER else fields


def recorded_contracts(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Table → its contract, as `contract_fields` gives it."""
    found = {name: json.loads(text) for name, text in ledger.definitions(_OF_CONTRACT).items()}
    return {
        name.removeprefix(_OF_CONTRACT): fields
        for name, fields in found.items()
        if fields.keys() != _OF_LAYER
    }


def contract_fields(contract: Mirrored) -> dict[str, Any]:
    """What a contract says, but for which table it is of; what is not set is left out."""
    return contract.model_dump(mode="json", exclude=set(_NAME), exclude_none=True)
