"""One request for the chains of several tables, the same for every trigger."""

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

import dagster as dg

from assets import chain_keys, folded_keys
from assets.keys import LOAD_TAG, SOURCE_TAG
from checks import chain_check_keys
from mirrorlake.config import TableContract

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger

UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def chains_of(contracts: Sequence[TableContract]) -> list[dg.AssetKey]:
    """The whole chain of every table."""
    return [key for contract in contracts for key in chain_keys(contract)]


def folds_of(contracts: Sequence[TableContract]) -> list[dg.AssetKey]:
    """What is folded of every table's chain."""
    return [key for contract in contracts for key in folded_keys(contract)]


def request_chains(
    contracts: Sequence[TableContract], day: date, run_key: str, reason: str, load: str
) -> dg.RunRequest:
    """One run for the chains of these tables of one source, loaded as ``LOAD_TAG`` says.

    They share a JVM, and one table's failure stops no other.
    """
    return _request(contracts, chains_of(contracts), day, run_key, reason, load)


def request_folds(
    contracts: Sequence[TableContract], day: date, run_key: str, reason: str
) -> dg.RunRequest:
    """One run that folds what raw of these tables of one source holds."""
    return _request(contracts, folds_of(contracts), day, run_key, reason, "none")


def _request(
    contracts: Sequence[TableContract],
    keys: Sequence[dg.AssetKey],
    day: date,
    run_key: str,
    reason: str,
    load: str,
) -> dg.RunRequest:
    chosen = set(keys)
    return dg.RunRequest(
        run_key=run_key,
        asset_selection=list(keys),
        asset_check_keys=[
            check for c in contracts for check in chain_check_keys(c) if check.asset_key in chosen
        ],
        partition_key=day.isoformat(),
        tags={
            SOURCE_TAG: contracts[0].source,
            LOAD_TAG: load,
            "mirrorlake/reason": reason,
        },
    )


def is_busy(instance: dg.DagsterInstance, source: str) -> bool:
    """Whether a run of this source waits or works."""
    under_way = dg.RunsFilter(tags={SOURCE_TAG: source}, statuses=UNFINISHED)
    return bool(instance.get_run_records(under_way, limit=1))


def why_held(ledger: "Ledger", source: str) -> str | None:
    """Why nothing is asked of a source now, None where somebody may."""
    held = ledger.held(source)
    if held is None:
        return None
    why = f" ({held.reason})" if held.reason else ""
    return f"Source {source} is held until {held.until:%Y-%m-%d %H:%M} UTC{why}"
