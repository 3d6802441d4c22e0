"""What the ledger keeps of a repair: why it began, and what both sides were before and after.

What belongs here: its records. What doesn't: the repair (`mirrorlake.operations.repairing.repair`).
"""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from mirrorlake.config import TableContract
from mirrorlake.ledger import Repair
from mirrorlake.operations.repairing.repair_keys import RepairRound
from mirrorlake.proof.comparing.report import Report, digest_text
from mirrorlake.proof.forms.differences import Differing
from mirrorlake.proof.ranges.ranges import RangeProof, Tally
from mirrorlake.workspace import Workspace

_KEPT = 1_000
"""So many keys have a digest in the ledger."""


def begin_repair(
    workspace: Workspace,
    contract: TableContract,
    report: Report,
    why: str,
    started: datetime,
    path: Path,
) -> Repair:
    """Write down what a check found, before anything is repaired."""
    journal = Repair(
        repair_id=uuid.uuid4().hex,
        table=contract.name,
        asked=report.ask.kind,
        why=why,
        keys=len(report.differences) + report.unlooked,
        digests=_key_digests(workspace, report.keys),
        before=_sides(report.ranges),
        after={},
        load_ids=(),
        before_snapshot=report.snapshot,
        after_snapshot=None,
        code=report.code,
        started_at=started,
        finished_at=None,
        outcome="begun",
        evidence=(str(path),),
    )
    workspace.ledger.write_repair(journal)
    return journal


def end_repair(
    workspace: Workspace,
    journal: Repair | None,
    done: Sequence[RepairRound],
    evidence: Sequence[Path],
    last: Report | None,
    outcome: str,
) -> None:
    """Write down how a repair ended; nothing where none began.

    Args:
        last: the last check of it; None where it failed.
    """
    if journal is None:
        return
    ended = replace(
        journal,
        after=_sides(last.ranges, every=True) if last else {},
        load_ids=tuple(load for m in done for load in m.loads),
        after_snapshot=last.snapshot if last else None,
        finished_at=datetime.now(UTC),
        outcome=outcome,
        evidence=tuple(str(path) for path in evidence),
    )
    workspace.ledger.write_repair(ended)


def _sides(ranges: Sequence[RangeProof], *, every: bool = False) -> dict[str, str]:
    """Rows and digests of both sides, of the ranges that differ or of every one."""
    chosen = [r for r in ranges if every or r.verdict != "equal"]
    sums = {
        "mysql": sum((r.source for r in chosen), Tally(0, 0)),
        "lake": sum((r.lake for r in chosen), Tally(0, 0)),
    }
    return {side: f"{tally.rows}:{digest_text(tally)}" for side, tally in sums.items()}


def _key_digests(workspace: Workspace, keys: Sequence[Differing]) -> tuple[str, ...]:
    """Keyed digests of the first keys; none without a key to make them by."""
    secret = workspace.config.privacy.hash_key
    if secret is None:
        return ()
    key = secret.get_secret_value().encode()
    texts = (",".join(one.texts[0]).encode("utf-8", "surrogateescape") for one in keys[:_KEPT])
    return tuple(hmac.new(key, text, hashlib.sha256).hexdigest()[:16] for text in texts)
