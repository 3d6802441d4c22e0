"""What each check looks at and what it makes of it."""

import dagster as dg

from mirrorlake.config import TableContract
from mirrorlake.lake.catalog import Lake
from mirrorlake.ledger import Load
from mirrorlake.mysql.introspect import read_table
from mirrorlake.observe import (
    Tally,
    duplicate_keys,
    exposed_columns,
    shown_columns,
    stored_pci,
    tally_full,
    tally_rows,
)
from mirrorlake.plan import plan_table
from resources.failures import told


def judge_keys(
    context: dg.AssetCheckExecutionContext, contract: TableContract
) -> dg.AssetCheckResult:
    """Whether every key stands in one row only."""
    with told(0, again=False):
        twice = duplicate_keys(context.resources.lake.lake, contract)
    return dg.AssetCheckResult(
        passed=twice == 0,
        metadata={"rows beyond the first of their key": twice},
        description=f"{twice} rows of deduped repeat a key" if twice else None,
    )


def judge_rows(
    context: dg.AssetCheckExecutionContext, contract: TableContract
) -> dg.AssetCheckResult:
    """Whether the mirror has the rows that MySQL has.

    Fewer is an error; more is a warning: loads of incremental and append tables don't see deletes.
    """
    with told(0, again=False):
        load = context.resources.ledger.ledger.last_load(contract.name, "success")
        tally = None if load is None else _tally(context, contract, load)
    if tally is None:
        return dg.AssetCheckResult(
            passed=True, description="Nothing is old enough to be counted yet"
        )
    metadata = {
        "counted": tally.bound,
        "rows in MySQL": tally.source,
        "rows in the mirror": tally.mirror,
        "updated meanwhile": tally.updated,
    }
    if tally.lost:
        words = f"{tally.lost} rows that MySQL has are not in the mirror"
        return dg.AssetCheckResult(passed=False, metadata=metadata, description=words)
    if tally.surplus:
        words = f"{tally.surplus} rows of the mirror are not in MySQL any more: deleted there"
        severity = dg.AssetCheckSeverity.ERROR
        if contract.mode != "full":
            severity = dg.AssetCheckSeverity.WARN
        return dg.AssetCheckResult(
            passed=False, severity=severity, metadata=metadata, description=words
        )
    return dg.AssetCheckResult(passed=True, metadata=metadata)


def judge_privacy(
    context: dg.AssetCheckExecutionContext, contract: TableContract
) -> dg.AssetCheckResult:
    """Whether clean shows nothing that the contract hides, and no layer holds card columns."""
    with told(0, again=False):
        lake: Lake = context.resources.lake.lake
        ledger = context.resources.ledger.ledger
        shown = shown_columns(lake, ledger, contract)
        wrong = exposed_columns(contract, shown)
        stored = stored_pci(lake, ledger, contract)
    found = [f"{column} {what}" for column, what in wrong.items()]
    found += [
        f"{column} is in {table}, and is never to be read" for column, table in stored.items()
    ]
    return dg.AssetCheckResult(
        passed=not found,
        metadata={"columns shown": len(shown), "columns with a rule": len(contract.columns)},
        description="; ".join(found) or None,
    )


def _tally(
    context: dg.AssetCheckExecutionContext, contract: TableContract, load: Load
) -> Tally | None:
    lake: Lake = context.resources.lake.lake
    if contract.mode == "full":
        return tally_full(lake, contract, load)
    mysql = context.resources.mysql
    with mysql.session(contract.source, contract.database) as connection:
        table = read_table(connection, contract.database, contract.table)
        plan = plan_table(contract, mysql.contracts.sources[contract.source], table)
        return tally_rows(connection, plan, lake, load)
