"""What the exact check found to differ, remembered until these rows are compared again, by anybody.

A look compares some rows, and to Dagster its verdict ends with the next materialisation: neither an
equal chunk nor a load may turn a table green whose other rows differ.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from dagster_mirrorlake.checks.series import EXACT
from mirrorlake.config import TableContract
from mirrorlake.ledger import Proof
from mirrorlake.proof.coverage.covered import current_proofs
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace

ExactVerdict = tuple[bool, Mapping[str, Any], str | None, dg.AssetCheckSeverity]
"""Whether it passed, metadata, words, severity."""


def with_known_differences(
    workspace: Workspace, contract: TableContract, verdict: ExactVerdict
) -> ExactVerdict:
    """A verdict on some rows, and what is known to differ among others: a chunk that is equal must
    not turn the table green. What differs is remembered."""
    passed, metadata, words, severity = verdict
    proofs = workspace.ledger.proofs(contract.name)
    found = _known(workspace, contract, proofs)
    others = "; ".join(found.values())
    if proofs and not passed and severity is dg.AssetCheckSeverity.ERROR:
        at = f"{workspace.ledger.clock():%Y-%m-%d %H:%M} UTC"
        found[proofs[-1].check_id] = f"{words} (found {at}, not compared since)"
    text = json.dumps(found)
    if text != (workspace.ledger.definition(_name(contract)) or "{}"):
        workspace.ledger.record_definition(_name(contract), text)
    if not others:
        return verdict
    said = words or "The rows that were compared now are equal"
    return False, metadata, f"{said}. Others: {others}", dg.AssetCheckSeverity.ERROR


def _name(contract: TableContract) -> str:
    return f"red {EXACT} {deduped_of(contract)}"


def _known(
    workspace: Workspace, contract: TableContract, proofs: Sequence[Proof]
) -> dict[str, str]:
    """By check: what it found to differ, in words, where nothing has compared these rows since, be
    it the command line."""
    known: dict[str, str] = json.loads(workspace.ledger.definition(_name(contract)) or "{}")
    if not known:
        return {}
    left = {proof.check_id for proof in current_proofs(proofs) if proof.verdict == "different"}
    return {check: words for check, words in known.items() if check in left}


def restated(workspace: Workspace, contract: TableContract) -> str | None:
    """What earlier looks found to differ, in words, where nothing has compared these rows since."""
    if workspace.ledger.definition(_name(contract)) is None:
        return None
    found = _known(workspace, contract, workspace.ledger.proofs(contract.name))
    return "; ".join(found.values()) or None
