"""The exact check in Dagster's words: the next chunk of a table, proved or not, and repaired where
its contract says so.

What is personal is told as keyed digests here too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from mirrorlake.config import TableContract
from mirrorlake.observe import deduped_table
from mirrorlake.proof.coverage import round_of
from mirrorlake.proof.differences import Difference, Field, Teller
from mirrorlake.proof.keep import prove_table, teller_of
from mirrorlake.proof.order import Span
from mirrorlake.proof.ranges import EVERYWHERE
from mirrorlake.proof.report import Ask, Report
from mirrorlake.proof.stale import aged_proofs
from mirrorlake.proof.target import Proving
from mirrorlake.repair import Repaired, repair_table
from mirrorlake.sync import Engine

_SHOWN = 50
"""How many differences a verdict lists."""
EXACT, PROVED = "exact_match", "proved of this round (%)"
_COLUMNS = ("kind", "key", "column", "MySQL", "lake")

Told = tuple[bool, Mapping[str, Any], str | None, dg.AssetCheckSeverity]


def judge_exact(engine: Engine, contract: TableContract) -> Told:
    """Whether it passed, metadata, words and severity.

    Raises:
        MirrorlakeError: it could not be looked, or not be repaired; see
            `mirrorlake.proof.check.check_table` and `mirrorlake.repair.repair_table`.
    """
    if not engine.ledger.folded_loads(contract.name, "deduped"):
        return True, {}, "Nothing is mirrored yet", dg.AssetCheckSeverity.ERROR
    proving = Proving(engine.config, engine.lake, engine.ledger, engine.spark)
    report, evidence = prove_table(proving, contract, Ask("next"))
    metadata = _metadata(report, teller_of(engine.config, contract), str(evidence))
    metadata |= _coverage(engine, contract)
    stale = [p.stale for p in aged_proofs(engine.ledger, contract.name) if p.stale is not None]
    if stale:
        metadata["stale proofs"] = f"{len(stale)} ranges were proved before this: {stale[0]}"
    if report.verdict == "different":
        count = len(report.differences) + report.unlooked
        words = f"{count} rows differ between MySQL and the lake"
        auto = contract.repair == "auto"
        gone = sum(key.gone for key in report.keys)
        # Deletes are what `deletes` of the contract is about: the sweep needs no other word.
        sweeps = contract.repair == "ask" and gone > 0
        if (auto and count <= contract.repair_limit) or (sweeps and gone <= contract.repair_limit):
            found = (report, evidence)
            done = repair_table(engine, contract, report.ask, found=found, only_deletes=not auto)
            metadata |= _repaired(done)
            words = f"{count} rows differed ({done.why}); now {done.outcome}: {done.rows} were read"
            words += f" again, {done.gone} were gone from MySQL"
            if done.outcome != "equal" and contract.repair == "ask":
                metadata["repair it by"] = _command(contract, report)
            passed = done.outcome == "equal"
            return passed, metadata, words, dg.AssetCheckSeverity.ERROR
        if contract.repair != "off":
            metadata["repair it by"] = _command(contract, report)
        if contract.repair == "auto":
            words += f", more than repair_limit ({contract.repair_limit}): not repaired"
        return False, metadata, words, dg.AssetCheckSeverity.ERROR
    if report.verdict == "undecided":
        reasons = "; ".join(f"{n} rows {why}" for why, n in sorted(report.undecided.items()))
        words = f"Not decidable yet: {reasons or 'too many rows differ'}"
        return False, metadata, words, dg.AssetCheckSeverity.WARN
    return True, metadata, None, dg.AssetCheckSeverity.ERROR


def _metadata(report: Report, teller: Teller, evidence: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "keys": str(report.ask.keys) if report.ranges[0].range else "all",
        "compared": report.scope,
        "rows in MySQL": report.source.rows,
        "rows in the mirror": report.lake.rows,
        "rows that wait": report.waiting,
        "MySQL's position": report.position,
        "bytes from MySQL": report.bytes,
        "seconds": report.seconds,
        "code": report.code,
        "evidence": dg.MetadataValue.path(evidence),
    }
    if report.differences:
        told["first differences"] = _table(report.differences, teller)
    return told


def _coverage(engine: Engine, contract: TableContract) -> dict[str, Any]:
    """How much of the table this round of chunks has proved."""
    found = round_of(engine.ledger.proofs(contract.name))
    snapshot = deduped_table(engine.lake, contract).current_snapshot()
    if found is None or snapshot is None or snapshot.summary is None:
        return {}
    rows = int(snapshot.summary["total-records"] or 0)
    return {
        PROVED: found.percent(rows),
        "chunks of this round": found.chunks,
        "this round began": f"{found.since:%Y-%m-%d %H:%M} UTC",
    }


def plotted_of(metadata: Mapping[str, Any]) -> dict[str, float]:
    """What is drawn over time: how much was compared, in what time, and how far the round is."""
    names = ("rows in MySQL", "seconds", "bytes from MySQL", PROVED)
    return {f"{EXACT}: {name}": metadata[name] for name in names if name in metadata}


def _command(contract: TableContract, report: Report) -> str:
    """What a person runs to repair these rows."""
    keys = report.ask.keys
    if isinstance(keys, Span) or report.ranges[0].range is None or keys == EVERYWHERE:
        return f"mirrorlake repair {contract.name}"
    low = "" if keys.lo is None else str(keys.lo)
    high = "" if keys.hi is None else str(keys.hi - 1)
    return f"mirrorlake repair {contract.name} --keys {low}..{high}"


def _repaired(done: Repaired) -> dict[str, Any]:
    return {
        "repaired": done.why,
        "after the repair": done.outcome,
        "rows read again": done.rows,
        "keys gone": done.gone,
        "loads of the repair": ", ".join(done.loads) or "none",
        "repair": done.repair_id or "none",
        "evidence after it": dg.MetadataValue.path(str(done.evidence[-1])),
    }


def _table(differences: Sequence[Difference], teller: Teller) -> dg.TableMetadataValue:
    rows = [row for d in differences[:_SHOWN] for row in _rows(d, teller)][:_SHOWN]
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(zip(_COLUMNS, row, strict=True))) for row in rows],
        dg.TableSchema([dg.TableColumn(name, "string") for name in _COLUMNS]),
    )


def _rows(difference: Difference, teller: Teller) -> list[tuple[str, ...]]:
    key = ", ".join(f"{v.column}={teller.value(v)}" for v in difference.key)
    kind = f"{difference.kind}{difference.note}"
    if not difference.fields:
        return [(kind, key, "", "", "")]
    return [(kind, key, f.source.column, *_both(f, teller)) for f in difference.fields]


def _both(field: Field, teller: Teller) -> tuple[str, str]:
    return teller.value(field.source), teller.value(field.lake)
