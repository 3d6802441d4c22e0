"""What a contract means for each layer: in words, and as the version of its asset's code.

A code version changes when an edit of the contract changes what the layer holds: then Dagster shows
the asset as made by other code. A release that changes nothing of that leaves it as it is.
"""

import hashlib
import json
from typing import Any

from mirrorlake.config import Mirrored, TableContract, TenantTable

_RAW: tuple[str, ...] = ("mode", "key", "cursor", "created", "entity", "start", "snapshot")
_VERSIONS = ("versions",)
_DEDUPED = ("deletes",)
_CLEAN = ("clean", "new_columns")
_WORDS = {
    "raw": "row versions as they were pulled; every load traceable",
    "deduped": "exactly one current row per key",
    "clean": "what people query: personal data masked or gone, card data never read",
    "bigquery": "deduped as BigQuery has it, in a dataset that nobody reads, and its views for "
    "readers; one materialisation for each version of deduped that was loaded",
}
_MODES = {
    "full": "copied as a whole",
    "append": "rows are only added",
    "incremental": "rows that changed are read again",
    "binlog": "every change, from the server's binary log",
    "snapshot": "complete copies land as files",
}


def code_version(contract: TableContract, layer: str) -> str | None:
    """A digest of what the contract says of a layer; None of the source, which is nobody's code."""
    if layer == "source":
        return None
    names = set(_RAW)
    said: dict[str, Any] = {"never read": sorted(contract.excluded)} if contract.excluded else {}
    if layer == "raw":
        names.update(_VERSIONS)
        structured = _structured(contract)
        said |= {"by structure": structured} if structured else {}
    else:
        names.update(_DEDUPED)
    if layer == "clean":
        names.update(_CLEAN)
    if layer == "bigquery":
        names.add("new_columns")
    if layer in ("clean", "bigquery"):
        said |= {"rules": sorted(contract.rules.items())} if contract.rules else {}
    # Defaults are left out: a setting that a later release adds changes nothing by being there.
    said |= contract.model_dump(mode="json", include=names, exclude_defaults=True)
    return _digest(said)


def tenants_code_version(table: TenantTable, layer: str) -> str | None:
    """The same of a table of tenants; which databases are tenants is no code."""
    if layer == "source":
        return None
    names = {"key"} | ({"dropped"} if layer != "raw" else set[str]())
    names |= {"new_columns", "clean"} if layer == "clean" else set()
    names |= {"new_columns"} if layer == "bigquery" else set()
    said = table.model_dump(mode="json", include=names, exclude_defaults=True)
    columns = sorted(table.columns.items())
    said["never read"] = [name for name, rule in columns if rule.pci == "never"]
    said["renamed"] = [[name, *rule.renamed_from] for name, rule in columns if rule.renamed_from]
    if layer in ("clean", "bigquery"):
        said["rules"] = [[name, rule.pii] for name, rule in columns if rule.pii]
    structured = _structured(table) if layer == "raw" else []
    said |= {"by structure": structured} if structured else {}
    return _digest(said)


def _structured(contract: Mirrored) -> list[str]:
    """The columns whose JSON raw shows by its structure."""
    rules = contract.columns.items()
    return sorted(name.lower() for name, rule in rules if rule.json_as == "structure")


def _digest(said: dict[str, Any]) -> str:
    text = json.dumps(said, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def describe(contract: TableContract, layer: str) -> str:
    """What the table is, what this layer has of it, and what the contract does to it."""
    name = f"{contract.database}.{contract.table}"
    if layer == "source":
        if contract.landed:
            return f"The folder in which complete copies of {name} land; only read."
        return f"The table {name} in MySQL ({contract.source}); never written. {_how(contract)}"
    words = _WORDS[layer]
    if contract.landed and layer == "raw":
        words = "complete copies where they landed, with files, sizes and digests"
    return " ".join(
        [f"{name} of {contract.source}: {words}.", _how(contract), *_rules(contract, layer)]
    )


def describe_tenants(table: TenantTable, layer: str) -> str:
    """What a table of tenants is, and what this layer has of it."""
    where = f"{', '.join(table.databases)} on {', '.join(table.sources)}"
    if layer == "source":
        return f"The table {table.table} of every database {where}; never written."
    words = {
        "raw": "each tenant's newest copy, a lake table for each schema version",
        "deduped": "the rows of all tenants in one table, in the columns of all schema versions",
        "clean": _WORDS["clean"],
        "bigquery": _WORDS["bigquery"],
    }[layer]
    key = ", ".join(f"`{name}`" for name in table.key)
    key = f"Key {key}, unique within a tenant." if key else "Without a key."
    return " ".join([f"{table.table} of {where}: {words}. {key}", *_rules(table, layer)])


def _how(contract: TableContract) -> str:
    """How its rows are read."""
    parts = [f"Mode {contract.mode}: {_MODES.get(contract.mode, 'see the contract')}"]
    if contract.cursor:
        parts.append(f"by `{contract.cursor}`")
    if contract.start:
        parts.append(f"from {contract.start}")
    key = ", ".join(f"`{name}`" for name in contract.key)
    return f"{' '.join(parts)}; {f'key {key}' if key else 'without a key'}."


def _rules(contract: Mirrored, layer: str) -> list[str]:
    found: list[str] = []
    if layer in ("clean", "bigquery") and contract.rules:
        rules = ", ".join(f"`{name}` ({rule})" for name, rule in sorted(contract.rules.items()))
        found.append(f"Personal: {rules}.")
    if contract.excluded:
        names = ", ".join(f"`{name}`" for name in sorted(contract.excluded))
        found.append(f"Never read: {names}.")
    return found
