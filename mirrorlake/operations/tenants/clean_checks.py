"""Whether clean of tenants is what the contract's rules make of deduped: a table row by row, a view
by its definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.merge.tenant_due import read_due
from mirrorlake.merge.tenant_shapes import read_shapes
from mirrorlake.operations.tenants.verdicts import CleanChecked, TenantVerdict
from mirrorlake.proof.clean.tenants import compare_tenants_clean
from mirrorlake.serving.tenant_clean_columns import clean_view_of
from mirrorlake.serving.views import find_replaced
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.tenants import contract_of, held_of
from mirrorlake.workspace import Workspace

UNFINISHED = "the last run died before clean had its rows: sync, then check again"


Verdicts: TypeAlias = dict[TenantPlace, tuple[str, str]]
"""Tenants whose rows in clean are not what they must be → verdict, and why."""


def clean_verdicts(
    workspace: Workspace, table: TenantTable, known: Mapping[TenantPlace, Tenant]
) -> tuple[CleanChecked, Verdicts]:
    """What was compared of clean; and of which tenants it is not what it must be.

    Raises:
        ProofError: columns are hashed, and no hash key is set.
        LakeError: a layer can't be read.
    """
    deduped = workspace.lake.load(deduped_of(table))
    if deduped is None:
        return CleanChecked(table.clean, words="there is nothing to compare yet"), {}
    compare = _of_table if table.clean == "table" else _of_view
    compared, words, found = compare(workspace, table, known, deduped)
    verdicts = {verdict for verdict, _ in found.values()}
    worst = next((v for v in ("different", "undecided") if v in verdicts), "equal")
    return CleanChecked(table.clean, compared, words, worst), found


def _of_view(
    workspace: Workspace,
    table: TenantTable,
    known: Mapping[TenantPlace, Tenant],
    _: LakeTable,
) -> tuple[str, str, Verdicts]:
    clean, compared = clean_of(table), "the view's definition with the contract's rules"
    wanted = clean_view_of(workspace.ledger, table, read_shapes(workspace, table))
    wrong = find_replaced(workspace.lake, clean, wanted)
    if wrong is None:
        return compared, "", {}
    words = f"view {clean} {wrong}: a sync makes it again"
    unfinished = any(one.load_id != one.folded for one in known.values() if not one.gone_at)
    verdict = ("undecided", UNFINISHED) if unfinished else ("different", words)
    return compared, verdict[1], dict.fromkeys(known, verdict)


def _of_table(
    workspace: Workspace,
    table: TenantTable,
    known: Mapping[TenantPlace, Tenant],
    deduped: LakeTable,
) -> tuple[str, str, Verdicts]:
    compared = "every row with what the contract's rules make of deduped's"
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
        verdict = ("undecided", UNFINISHED) if due else ("different", "; ".join(found.words))
        return compared, verdict[1], dict.fromkeys(known, verdict)
    verdicts: Verdicts = {}
    for place, (wants, has) in (found.differing or {}).items():
        words = f"clean has {has:,} rows that are not what its rules make of deduped's {wants:,}"
        unfinished = due.everything or place in due.places
        verdicts[place] = ("undecided", UNFINISHED) if unfinished else ("different", words)
    return compared, "", verdicts


def with_clean(verdict: TenantVerdict, found: tuple[str, str] | None) -> TenantVerdict:
    """A tenant's verdict, and what is wrong with clean's rows of it."""
    if found is None or verdict.verdict == "different" != found[0]:
        return verdict
    before = f"{verdict.words}; " if verdict.words else ""
    return replace(verdict, verdict=found[0], words=f"{before}{found[1]}")
