"""Clean as the input of an asset of your own: which table, and which of its rows.

What belongs here: what an asset writes under ``ins``. What doesn't: reading the rows
(`dagster_mirrorlake.resources.clean_io`).
"""

from typing import Any, Literal

import dagster as dg

from dagster_mirrorlake.table import MirroredTable

CLEAN_IO = "clean_io"
"""The resource that reads clean."""
TABLE = "mirrorlake/table"
WHOLE = "mirrorlake/whole"
UNDATED = "mirrorlake/undated"
FORM = "mirrorlake/form"
"""Metadata of an input: what of clean it is given."""

Form = Literal["arrow", "arrow-batches", "spark", "duckdb", "polars", "polars-lazy"]


def clean_input(
    source: str,
    database: str,
    table: str,
    *,
    whole: bool = False,
    undated: Literal["refuse", "skip"] = "refuse",
    form: Form | None = None,
    partition_mapping: dg.PartitionMapping | None = None,
) -> dg.AssetIn:
    """The clean layer of a table as an asset's input, under the keys that the location has by
    itself; `clean_of` where a translator says other ones.

    >>> @dg.asset(ins={"orders": clean_input("shop", "shop", "orders")})
    ... def late_orders(orders: pa.Table): ...

    An asset that is partitioned by days is given the rows of its days; without partitions, or of a
    table of full copies, all rows.

    Args:
        whole: whether all rows are given, whatever the asset's partitions are.
        undated: whether rows that have no date are refused when days are requested, or left out.
        form: what the rows are given as, where the argument has no annotation.
        partition_mapping: which of clean's partitions each one of the asset needs.
    """
    name = ".".join((source, database, table))
    key = dg.AssetKey(["clean", source, database, table])
    return _asset_in(key, name, whole, undated, form, partition_mapping)


def clean_of(
    table: MirroredTable,
    *,
    whole: bool = False,
    undated: Literal["refuse", "skip"] = "refuse",
    form: Form | None = None,
    partition_mapping: dg.PartitionMapping | None = None,
) -> dg.AssetIn:
    """`clean_input` of a table whose keys are its translator's. Full copies have no days to choose
    from: an asset with partitions of any kind may take them."""
    whole = whole or table.contract.copies
    name = table.contract.name
    return _asset_in(table.key("clean"), name, whole, undated, form, partition_mapping)


def _asset_in(
    key: dg.AssetKey,
    table: str,
    whole: bool,
    undated: str,
    form: Form | None,
    mapping: dg.PartitionMapping | None,
) -> dg.AssetIn:
    if whole and mapping is None:
        mapping = dg.AllPartitionMapping()
    metadata: dict[str, Any] = {
        TABLE: table,
        WHOLE: whole or isinstance(mapping, dg.AllPartitionMapping),
        UNDATED: undated,
        **({FORM: form} if form else {}),
    }
    return dg.AssetIn(
        key=key, metadata=metadata, partition_mapping=mapping, input_manager_key=CLEAN_IO
    )
