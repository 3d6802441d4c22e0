"""A source's binary log, of which Dagster shows how far the tables that follow it are behind."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.keys import GROUP, log_key
from dagster_mirrorlake.tenants import AnyMirrored

if TYPE_CHECKING:
    from mirrorlake.operations.following.lag import LogLag

LAG_SECONDS, LAG_BYTES = "lag (s)", "lag (bytes)"
"""Numbers, which the asset's page plots."""


def build_source_log(source: str, tables: Sequence[AnyMirrored]) -> dg.AssetSpec:
    """An external asset: it is observed, by the job that follows it, and by the sensor that
    requests runs.

    Args:
        tables: those that follow the log.
    """
    return dg.AssetSpec(
        log_key(source, tables[0].names),
        description=f"The binary log of source {source}: how far its tables of mode binlog are "
        "behind it, in seconds and in bytes of the log.",
        group_name=GROUP,
        kinds={"mysql"},
    )


def lag_metadata(lag: "LogLag", more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What is shown of a lag."""
    size = {LAG_BYTES: lag.bytes} if lag.bytes is not None else {}
    waiting = {"without a copy": ", ".join(lag.waiting)} if lag.waiting else {}
    shown = {LAG_SECONDS: lag.seconds, **size, "tables": lag.tables, "most behind": lag.table}
    return {**shown, **waiting, **(more or {})}


def observed_lag(
    source: str,
    table: AnyMirrored,
    lag: "LogLag",
    more: Mapping[str, Any] | None = None,
) -> dg.AssetObservation:
    """The log as it was seen.

    Args:
        table: any one of the mirror.
    """
    return dg.AssetObservation(log_key(source, table.names), metadata=lag_metadata(lag, more))
