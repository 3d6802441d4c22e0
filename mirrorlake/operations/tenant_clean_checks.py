"""Whether a clean table of tenants is what the contract's rules make of deduped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirrorlake.config.contract import TenantTable
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.merge.tenant_due import read_due
from mirrorlake.merge.tenant_shapes import read_shapes
from mirrorlake.operations.tenant_verdicts import TenantVerdict
from mirrorlake.proof.tenant_clean import compare_tenants_clean
from mirrorlake.table.tenants import clean_of, contract_of, deduped_of, held_of
from mirrorlake.workspace import Workspace

UNFINISHED = "the last run died before clean had its rows: sync, then check again"


def clean_verdicts(
    workspace: Workspace, table: TenantTable, known: Mapping[TenantPlace, Tenant]
) -> dict[TenantPlace, tuple[str, str]]:
    """Tenants of which the clean table has other rows than the rules make of deduped's → verdict,
    and why; none where clean is a view: that is deduped itself.

    Raises:
        ProofError: columns are hashed, and no hash key is set.
        LakeError: a layer can't be read.
    """
    deduped = workspace.lake.load(deduped_of(table))
    if table.clean != "table" or deduped is None:
        return {}
    shapes = read_shapes(workspace, table)
    names = [name for name, _ in shapes.stored]
    contract = contract_of(table, "", "", names)
    ruled = {name: contract.column_rule(name) for name in names}
    rules = {n: "drop" if rule.pci else rule.pii for n, rule in ruled.items() if rule is not None}
    rules |= dict.fromkeys(held_of(workspace.ledger, table, shapes.columns), "drop")
    stated = {name: rule for name, rule in rules.items() if rule not in (None, "show")}
    secret = workspace.config.privacy.hash_key
    key = secret.get_secret_value().encode() if secret else None
    clean = workspace.lake.load(clean_of(table))
    found = compare_tenants_clean(workspace.lake, deduped, clean, names, stated, key)
    due = read_due(workspace.ledger, clean_of(table))
    if found.words:
        words = "; ".join(found.words)
        return dict.fromkeys(known, ("undecided", UNFINISHED) if due else ("different", words))
    verdicts: dict[TenantPlace, tuple[str, str]] = {}
    for place, (wants, has) in (found.differing or {}).items():
        words = f"clean has {has:,} rows that are not what its rules make of deduped's {wants:,}"
        unfinished = due.everything or place in due.places
        verdicts[place] = ("undecided", UNFINISHED) if unfinished else ("different", words)
    return verdicts


def with_clean(verdict: TenantVerdict, found: tuple[str, str] | None) -> TenantVerdict:
    """A tenant's verdict, and what is wrong with clean's rows of it."""
    if found is None or verdict.verdict == "different" != found[0]:
        return verdict
    before = f"{verdict.words}; " if verdict.words else ""
    return replace(verdict, verdict=found[0], words=f"{before}{found[1]}")
