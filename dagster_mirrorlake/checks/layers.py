"""Raw and clean in Dagster's words: raw's files as their loads wrote them, clean as deduped's rows
under the contract's rules.

Neither starts Spark. What a look finds is kept in the ledger, as `mirrorlake check` keeps it.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import dagster as dg

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.operations.checking.check_layers import (
    LayerReport,
    prove_clean_layer,
    prove_raw_layer,
)
from mirrorlake.table.hash_key import fingerprint_of
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.workspace import Workspace

INTACT, MATCHES = "intact", "matches_deduped"
MOST_BYTES = 2**30
"""About how many bytes of raw one look reads, those read longest ago first."""
LayerVerdict = tuple[bool, Mapping[str, Any], str | None, dg.AssetCheckSeverity]
_SEVERITY = {
    "different": dg.AssetCheckSeverity.ERROR,
    "undecided": dg.AssetCheckSeverity.WARN,
}


def raw_verdict(workspace: Workspace, contract: TableContract, *, whole: bool) -> LayerVerdict:
    """Whether raw holds its loads' files and no other, and the bytes of some, or of all.

    Args:
        whole: whether all bytes are read; else about `MOST_BYTES`.
    """
    if not workspace.ledger.last_load(contract.name, "success"):
        return True, {}, "Nothing is loaded yet", dg.AssetCheckSeverity.ERROR
    report = prove_raw_layer(workspace, contract, most_bytes=None if whole else MOST_BYTES)
    # Files that wait for their turn are no doubt: the round continues with the next look.
    partly = not whole and _only_waits(report)
    return _found(report, passed=partly or report.verdict == "equal")


def clean_verdict(workspace: Workspace, contract: TableContract, *, whole: bool) -> LayerVerdict:
    """Whether clean shows exactly deduped's rows.

    Args:
        whole: whether tables are compared that have not changed since they were found equal.
    """
    if not workspace.ledger.folded_loads(contract.name, "deduped"):
        return True, {}, "Nothing is folded yet", dg.AssetCheckSeverity.ERROR
    name, terms = f"{MATCHES} {clean_of(contract)}", _terms(workspace, contract)
    if not whole and terms is not None and workspace.ledger.definition(name) == terms:
        words = "Neither deduped nor clean has changed since they were last found equal"
        return True, {}, words, dg.AssetCheckSeverity.ERROR
    report = prove_clean_layer(workspace, contract)
    if terms is not None and report.verdict == "equal" and terms == _terms(workspace, contract):
        workspace.ledger.record_definition(name, terms)
    return _found(report, passed=report.verdict == "equal")


def _only_waits(report: LayerReport) -> bool:
    return report.verdict == "undecided" and report.proof.words.endswith("not read this time")


def _found(report: LayerReport, *, passed: bool) -> LayerVerdict:
    proof = report.proof
    metadata: dict[str, Any] = {
        "verdict": proof.verdict,
        "compared": proof.compared,
        "rows": proof.rows,
        "rows as they should be": proof.expected_rows,
        "seconds": proof.seconds,
    }
    if report.lines:
        metadata["first differences"] = dg.MetadataValue.md(
            "\n".join(f"- {line}" for line in report.lines)
        )
    if report.next_step:
        metadata["next step"] = report.next_step
    severity = _SEVERITY.get(proof.verdict, dg.AssetCheckSeverity.ERROR)
    return passed, metadata, proof.words or None, severity


def _terms(workspace: Workspace, contract: TableContract) -> str | None:
    """By what two tables were compared: their versions, and all that decides what clean must be;
    None of a view, which costs nothing to look at."""
    if contract.clean != "table":
        return None
    lake, key = workspace.lake, workspace.config.privacy.hash_key
    return json.dumps(
        [
            _snapshot(lake.load(deduped_of(contract))),
            _snapshot(lake.load(clean_of(contract))),
            hashlib.sha256(contract.model_dump_json().encode()).hexdigest()[:16],
            fingerprint_of(key) if key else "",
        ]
    )


def _snapshot(table: LakeTable | None) -> int | None:
    snapshot = table.current_snapshot() if table is not None else None
    return snapshot.snapshot_id if snapshot is not None else None
