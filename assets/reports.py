"""What this deployment makes of mirrored tables: an example to begin from.

What belongs here: assets downstream of clean. What doesn't: which of them there are (`all_assets`).
"""

from typing import Any

import dagster as dg

from dagster_mirrorlake import MirroredTable, clean_of

_SHOWN = 100
"""Lines that an asset's page shows at most."""


def flights_per_airport(flights: MirroredTable) -> dg.AssetsDefinition:
    """Per day and airport: how many flights were to leave, how many did not, and how late the
    others were."""
    # Imported here: a location without flights need not wait for it.
    import pyarrow as pa

    @dg.asset(
        key=["reports", "flights_per_airport"],
        group_name="reports",
        kinds={"arrow"},
        ins={"flights": clean_of(flights)},
        partitions_def=flights.partitions_def,
        backfill_policy=dg.BackfillPolicy.single_run(),
        description="Per day and airport: how many flights were to leave, how many did not, and "
        "how many minutes late the others left. Given the rows of its days by `clean_io`.",
    )
    def report(flights: pa.Table) -> dg.MaterializeResult[Any]:
        days = flights.append_column("day", flights["time_hour"].cast(pa.date32()))
        by_airport = days.group_by(["day", "origin"]).aggregate(
            [([], "count_all"), ("dep_time", "count"), ("dep_delay", "mean")]
        )
        lines = by_airport.sort_by([("day", "ascending"), ("origin", "ascending")]).to_pylist()
        records = [
            dg.TableRecord(
                {
                    "day": line["day"].isoformat(),
                    "airport": line["origin"],
                    "flights": line["count_all"],
                    "cancelled": line["count_all"] - line["dep_time_count"],
                    "minutes late": round(float(line["dep_delay_mean"] or 0), 1),
                }
            )
            for line in lines[:_SHOWN]
        ]
        return dg.MaterializeResult(
            metadata={
                "dagster/row_count": len(lines),
                "flights": flights.num_rows,
                "cancelled": flights["dep_time"].null_count,
                "the first days": dg.MetadataValue.table(records, _schema()),
            }
        )

    return report


def _schema() -> dg.TableSchema:
    kinds = {"day": "date", "airport": "string", "flights": "int", "cancelled": "int"}
    kinds["minutes late"] = "double"
    return dg.TableSchema([dg.TableColumn(name, kind) for name, kind in kinds.items()])
