"""Whether tables that follow a source's log are no further behind it than their contracts allow."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.keys import log_key
from dagster_mirrorlake.assets.source_log import lag_metadata
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.tenants import AnyMirrored
from mirrorlake.config import Mirrored

if TYPE_CHECKING:
    from mirrorlake.operations.following.lag import LogLag

LAG = "lag"
"""The check's name."""


def build_lag_check(source: str, tables: Sequence[AnyMirrored]) -> dg.AssetChecksDefinition:
    """The check of one source's log.

    It asks the server where its log ends, and starts no Spark.

    Args:
        tables: those that follow the log.
    """
    contracts = [table.contract for table in tables]
    names = tables[0].names

    @dg.asset_check(
        asset=log_key(source, names),
        name=LAG,
        required_resource_keys=names.all_of({"mysql", "ledger"}),
        description="How far the tables that follow this log are behind it, against the shortest "
        "`freshness` of their contracts.",
    )
    def lag(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        from mirrorlake.operations.following.lag import read_lag

        with dagster_errors():
            resources = names.resources(context)
            config = resources.mysql.contracts.sources[source]
            with resources.mysql.session(source) as connection:
                found = read_lag(connection, config, contracts, resources.ledger.ledger)
        passed, severity, words, metadata = lag_verdict(contracts, found)
        return dg.AssetCheckResult(
            passed=passed, severity=severity, description=words, metadata=metadata
        )

    return lag


LagVerdict = tuple[bool, dg.AssetCheckSeverity, str, dict[str, Any]]
"""Whether it passed, how bad it is, words, metadata."""


def lag_verdict(contracts: Sequence[Mirrored], lag: "LogLag | None") -> LagVerdict:
    """What a lag means by these contracts."""
    error, warn = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
    if lag is None:
        return False, warn, "no table has a copy from which its log could be followed", {}
    fresh = [c.freshness for c in contracts if c.freshness is not None]
    fail = min((f.fail_after for f in fresh), default=None)
    warns = min((f.warn_after for f in fresh if f.warn_after is not None), default=None)
    seconds, metadata = timedelta(seconds=lag.seconds), lag_metadata(lag)
    for limit, severity in ((fail, error), (warns, warn)):
        if limit is not None and seconds > limit:
            words = f"{lag.table} is {lag.seconds:,.1f} s behind its source, and may be {limit}"
            return False, severity, words, metadata
    return True, error, "", metadata


def lag_evaluation(
    source: str,
    table: AnyMirrored,
    contracts: Sequence[Mirrored],
    lag: "LogLag",
) -> dg.AssetCheckEvaluation:
    """The same verdict, of a step that is not the check's.

    Args:
        table: any one of the mirror.
    """
    passed, severity, words, metadata = lag_verdict(contracts, lag)
    return dg.AssetCheckEvaluation(
        asset_key=log_key(source, table.names),
        check_name=LAG,
        passed=passed,
        metadata=metadata,
        severity=severity,
        description=words or None,
    )
