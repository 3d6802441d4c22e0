"""One request for the chains of several tables, the same for every trigger."""

from collections.abc import Sequence
from datetime import date

import dagster as dg

from assets import chain_keys
from assets.keys import SOURCE_TAG
from mirrorlake.config import TableContract


def chains_of(contracts: Sequence[TableContract]) -> list[dg.AssetKey]:
    """The whole chain of every table."""
    return [key for contract in contracts for key in chain_keys(contract)]


def request_chains(
    contracts: Sequence[TableContract], day: date, run_key: str, reason: str
) -> dg.RunRequest:
    """One run for these tables of one source.

    They share a JVM, and one table's failure stops no other.
    """
    return dg.RunRequest(
        run_key=run_key,
        asset_selection=chains_of(contracts),
        partition_key=day.isoformat(),
        tags={SOURCE_TAG: contracts[0].source, "mirrorlake/reason": reason},
    )
