"""The factory: one contract → its source asset and the three assets of its chain."""

from collections.abc import Callable
from typing import Any

import dagster as dg

from assets import keys
from assets.steps import Events, clean_table, fold_table, load_table
from mirrorlake.config import TableContract

_KINDS = {
    "raw": {"iceberg", "spark"},
    "deduped": {"iceberg", "spark"},
    "clean": {"iceberg", "spark"},
}
_WORDS = {
    "raw": "Row versions as they were pulled from MySQL; every load traceable, partitioned by day.",
    "deduped": "Exactly one current row per key. Partition D means: raw D is folded.",
    "clean": "What people query: personal data masked or gone, card data never read.",
}


def build_chain(
    contract: TableContract, days: dg.PartitionsDefinition
) -> list[dg.AssetSpec | dg.AssetsDefinition]:
    """A table's source asset and its chain, one op per asset."""
    source = _source_asset(contract)
    return [
        source,
        _layer(contract, "raw", source.key, days, load_table),
        _layer(contract, "deduped", keys.asset_key("raw", contract), days, fold_table),
        _layer(contract, "clean", keys.asset_key("deduped", contract), days, clean_table),
    ]


def chain_keys(contract: TableContract) -> list[dg.AssetKey]:
    """What one trigger requests: the whole chain."""
    return [keys.asset_key(layer, contract) for layer in keys.LAYERS]


def _source_asset(contract: TableContract) -> dg.AssetSpec:
    return dg.AssetSpec(
        keys.source_key(contract),
        description=f"The table {contract.database}.{contract.table} in MySQL; never written.",
        group_name=keys.group_of(contract),
        kinds={"mysql", "table"},
        tags=keys.tags_of(contract),
        owners=keys.OWNERS,
        metadata={
            "dagster/table_name": f"{contract.database}.{contract.table}",
            **_facts(contract),
        },
    )


def _layer(
    contract: TableContract,
    layer: str,
    upstream: dg.AssetKey,
    days: dg.PartitionsDefinition,
    step: Callable[[dg.AssetExecutionContext, TableContract], Events],
) -> dg.AssetsDefinition:
    @dg.asset(
        key=keys.asset_key(layer, contract),
        deps=[upstream],
        description=_WORDS[layer],
        partitions_def=days,
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name=keys.group_of(contract),
        kinds=_KINDS[layer],
        tags=keys.tags_of(contract),
        owners=keys.OWNERS,
        metadata={"dagster/table_name": _table_name(contract, layer), **_facts(contract)},
        required_resource_keys={"engine"},
        pool=keys.pool_of(contract.source) if layer == "raw" else None,
    )
    def step_of_chain(context: dg.AssetExecutionContext) -> Any:
        yield from step(context, contract)

    return step_of_chain


def _table_name(contract: TableContract, layer: str) -> str:
    return f"{getattr(contract.namespaces, layer)}.{contract.table}"


def _facts(contract: TableContract) -> dict[str, str]:
    """What the contract says, for the asset's page."""
    facts = {"mode": contract.mode, "key": ", ".join(contract.key) or "none"}
    if contract.cursor:
        facts["cursor"] = contract.cursor
    if contract.start:
        facts["start"] = contract.start.isoformat()
    return facts
