"""What each check looks at and what it makes of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from mirrorlake.config import TableContract
from mirrorlake.ledger import Load
from mirrorlake.mysql.connect import session
from mirrorlake.observe import (
    Tally,
    duplicate_keys,
    exposed_columns,
    shown_columns,
    stored_pci,
    tally_full,
    tally_rows,
)
from mirrorlake.sync import Engine
from resources.failures import told


@dataclass(frozen=True)
class Verdict:
    """What one check found; ``words`` say what is wrong, without any row's values."""

    passed: bool
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    words: str | None = None
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR


def judge(
    context: dg.AssetCheckExecutionContext,
    contract: TableContract,
    key: dg.AssetKey,
    names: Sequence[str],
) -> Iterator[dg.AssetCheckResult]:
    """The verdicts of these checks of one asset.

    One that can't look does not keep the others from being told.

    Raises:
        Failure: a look failed; the first reason.
    """
    failed: dg.Failure | None = None
    for name in names:
        try:
            with told(0, again=False):
                verdict = _JUDGES[name](context.resources.engine.engine, contract)
        except dg.Failure as error:
            failed = failed or error
            continue
        yield dg.AssetCheckResult(
            asset_key=key,
            check_name=name,
            passed=verdict.passed,
            severity=verdict.severity,
            metadata=dict(verdict.metadata),
            description=verdict.words,
        )
    if failed is not None:
        raise failed


def judge_keys(engine: Engine, contract: TableContract) -> Verdict:
    """Whether every key stands in one row only."""
    twice = duplicate_keys(engine.lake, contract)
    words = f"{twice} rows of deduped repeat a key" if twice else None
    return Verdict(twice == 0, {"rows beyond the first of their key": twice}, words)


def judge_rows(engine: Engine, contract: TableContract) -> Verdict:
    """Whether the mirror has the rows that MySQL has.

    Fewer is an error; more is a warning: loads of incremental and append tables don't see deletes.
    """
    load = engine.ledger.last_load(contract.name, "success")
    tally = None if load is None else _tally(engine, contract, load)
    if tally is None:
        return Verdict(True, words="Nothing is old enough to be counted yet")
    metadata = {
        "counted": tally.bound,
        "rows in MySQL": tally.source,
        "rows in the mirror": tally.mirror,
        "updated meanwhile": tally.updated,
    }
    if tally.lost:
        return Verdict(False, metadata, f"{tally.lost} rows that MySQL has are not in the mirror")
    if tally.surplus:
        words = f"{tally.surplus} rows of the mirror are not in MySQL any more: deleted there"
        sees_deletes = contract.mode == "full"
        severity = dg.AssetCheckSeverity.ERROR if sees_deletes else dg.AssetCheckSeverity.WARN
        return Verdict(False, metadata, words, severity)
    return Verdict(True, metadata)


def judge_privacy(engine: Engine, contract: TableContract) -> Verdict:
    """Whether clean shows nothing that the contract hides, and no layer holds card columns."""
    lake, ledger = engine.lake, engine.ledger
    shown = shown_columns(lake, ledger, contract)
    wrong = exposed_columns(contract, shown)
    stored = stored_pci(lake, ledger, contract)
    found = [f"{column} {what}" for column, what in wrong.items()]
    found += [
        f"{column} is in {table}, and is never to be read" for column, table in stored.items()
    ]
    metadata = {"columns shown": len(shown), "columns with a rule": len(contract.columns)}
    return Verdict(not found, metadata, "; ".join(found) or None)


def _tally(engine: Engine, contract: TableContract, load: Load) -> Tally | None:
    if contract.mode == "full":
        return tally_full(engine.lake, contract, load)
    with session(engine.config.sources[contract.source], contract.database) as connection:
        return tally_rows(connection, engine.plan(contract, connection), engine.lake, load)


_JUDGES = {"row_count": judge_rows, "unique_key": judge_keys, "no_pii": judge_privacy}
