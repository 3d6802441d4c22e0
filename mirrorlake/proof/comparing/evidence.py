"""What is kept of a check: rows in the ledger, and an evidence file that anyone can run again.

Neither holds a value of a hidden column, nor the condition that a person wrote.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.iceberg.tables.integrity import damage_errors
from mirrorlake.errors import ProofError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proofs.proof_records import Proof
from mirrorlake.proof.comparing.check import MOST, check_table
from mirrorlake.proof.comparing.report import Ask, Report, digest_text
from mirrorlake.proof.coverage.coverage import round_of
from mirrorlake.proof.forms.differences import Formatter
from mirrorlake.table.columns.new_columns import held_now
from mirrorlake.table.surplus import SURPLUS
from mirrorlake.workspace import Workspace

_CONDITION = "<the condition>"


def prove_table(
    workspace: Workspace,
    contract: TableContract,
    ask: Ask,
    evidence: str | os.PathLike[str] | None = None,
    most: int = MOST,
) -> tuple[Report, Path]:
    """`check_table`, and what it found written down: the report, and its evidence file.

    A check that fails or is interrupted leaves no trace: the next chunk is the same one.

    Args:
        evidence: the folder of evidence files; by default one beside the contract file.

    Raises:
        ProofError: the folder can't be written; nothing was checked.
        MirrorlakeError: see `check_table`.
    """
    folder = Path(evidence or evidence_folder(workspace.config)) / folder_name(contract.name)
    _make_writable(folder)
    with damage_errors(workspace.lake, workspace.ledger, contract):
        report = check_table(workspace, contract, ask, most)
    check_id = uuid.uuid4().hex
    path = folder / f"{report.started:%Y%m%dT%H%M%SZ}-{check_id[:8]}.json"
    held = held_now(workspace.ledger, workspace.lake, contract)
    formatter = formatter_of(workspace.config, contract, held=held)
    path.write_text(
        json.dumps(evidence_of(report, formatter, check_id), indent=2, ensure_ascii=False),
        encoding="utf-8",
    )
    keys = report.ask.keys
    offset = (keys.bounds[1],) if ask.kind == "next" else None
    workspace.ledger.record_proofs(_proofs(report, check_id, path), offset)
    _forget_surplus(workspace.ledger, contract.name, ask.kind, report.verdict)
    return report, path


def _forget_surplus(ledger: Ledger, table: str, asked: str, verdict: str) -> None:
    """Where the whole table is equal, by one check or by a round of chunks, no row is only in the
    mirror any more."""
    name = SURPLUS + table
    if verdict != "equal" or asked not in ("full", "next") or ledger.definition(name) is None:
        return
    if asked == "next":
        checked = round_of(ledger.proofs(table))
        if checked is None or not checked.whole or checked.equal != checked.chunks:
            return
    ledger.forget_definition(name)


def evidence_folder(config: Config) -> Path:
    """Where evidence files are, unless somebody names another folder."""
    return config.path.parent / ".mirrorlake" / "evidence"


def folder_name(table: str) -> str:
    """A table's folder of evidence: one folder, whatever MySQL lets the table be called.

    >>> folder_name("s.shop.orders"), folder_name("s.shop.../../x")
    ('s.shop.orders', 's.shop...%2F..%2Fx')
    """
    return table.replace("%", "%25").replace("/", "%2F")


def formatter_of(
    config: Config, contract: TableContract, *, shown: bool = False, held: Collection[str] = ()
) -> Formatter:
    """What describes a table's differences; ``shown``: with the values of hidden columns; ``held``:
    new columns of which nobody decided, whose values are hidden too."""
    key = config.privacy.hash_key
    hidden = () if shown else (*contract.rules, *held)
    return Formatter(hidden, key.get_secret_value() if key else None)


def evidence_of(report: Report, formatter: Formatter, check_id: str) -> dict[str, Any]:
    """A report as it is written into a file."""
    return {
        "check": check_id,
        **report_words(report),
        "code": report.code,
        "server": report.server,
        "position": report.position,
        "source_time": f"{report.source_time.isoformat()}Z",
        "snapshot": report.snapshot,
        "through_load": report.through,
        "ranges": [_range(r) for r in report.ranges],
        "undecided": dict(report.undecided),
        "differences": [line for d in report.differences for line in formatter.lines(d)],
        "sql": _without_condition(report),
    }


def report_words(report: Report) -> dict[str, Any]:
    """What a report says in one look."""
    return {
        "table": report.table,
        "asked": report.ask.kind if report.ask.kind == "where" else str(report.ask),
        "compared": report.scope,
        "verdict": report.verdict,
        "source_rows": report.source.rows,
        "lake_rows": report.lake.rows,
        "rows_that_differ": len(report.differences),
        "not_looked_at": report.unlooked,
        "deleted_and_ignored": report.ignored,
        "waiting": report.waiting,
        "not_mirrored": list(report.not_mirrored),
        "looked_up_by_key": report.beside,
        "started": report.started.isoformat(timespec="seconds"),
        "seconds": report.seconds,
        "source_bytes": report.bytes,
    }


def _range(proof: Any) -> dict[str, Any]:
    return {
        "keys": None if proof.range is None else str(proof.range),
        "verdict": proof.verdict,
        "source": {"rows": proof.source.rows, "digest": digest_text(proof.source)},
        "lake": {"rows": proof.lake.rows, "digest": digest_text(proof.lake)},
    }


def _without_condition(report: Report) -> Mapping[str, str]:
    if not report.ask.where:
        return report.statements
    return {
        name: sql.replace(report.ask.where, _CONDITION) for name, sql in report.statements.items()
    }


def _proofs(report: Report, check_id: str, path: Path) -> Sequence[Proof]:
    return [
        Proof(
            check_id=check_id,
            table=report.table,
            asked=report.ask.kind,
            lo=one.range.bounds[0] if one.range else None,
            hi=one.range.bounds[1] if one.range else None,
            verdict=one.verdict,
            source_rows=one.source.rows,
            lake_rows=one.lake.rows,
            source_digest=digest_text(one.source),
            lake_digest=digest_text(one.lake),
            waiting=report.waiting,
            differences=report.open_rows,
            server=report.server,
            position=report.position,
            source_time=report.source_time,
            snapshot_id=report.snapshot,
            through_seq=report.through,
            code=report.code,
            started_at=report.started,
            seconds=report.seconds,
            source_bytes=report.bytes,
            evidence=str(path),
            day=report.ask.day,
            days_from=report.days.first if report.days else None,
            days_before=report.days.before if report.days else None,
        )
        for one in report.ranges
    ]


def _make_writable(folder: Path) -> None:
    """Find out before anything is read."""
    probe = folder / ".mirrorlake-can-write"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ProofError(
            f"the evidence folder {folder} can't be written: {error.strerror}",
            next_step="Make it writable, or name another one with --evidence",
        ) from error
