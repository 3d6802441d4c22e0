"""The factory: one contract → its source asset and the three assets of its chain."""

import dagster as dg

from assets import keys
from assets.layer import layer_asset
from mirrorlake.config import TableContract

_KINDS = {"iceberg", "spark"}
_WORDS = {
    "raw": "Row versions as they were pulled from MySQL; every load traceable, partitioned by day.",
    "deduped": "Exactly one current row per key. Partition D means: raw D is folded.",
    "clean": "What people query: personal data masked or gone, card data never read.",
}
_UPSTREAM = {"raw": "mysql", "deduped": "raw", "clean": "deduped"}


def build_chain(
    contract: TableContract, days: dg.PartitionsDefinition
) -> list[dg.AssetSpec | dg.AssetsDefinition]:
    """A table's source asset and its chain, one op per asset."""
    facts = _facts(contract)
    return [
        _source_asset(contract, facts),
        *(_layer(contract, layer, days, facts) for layer in keys.LAYERS),
    ]


def chain_keys(contract: TableContract) -> list[dg.AssetKey]:
    """What one trigger requests: the whole chain."""
    return [keys.asset_key(layer, contract) for layer in keys.LAYERS]


def folded_keys(contract: TableContract) -> list[dg.AssetKey]:
    """What is requested of a chain whose raw is ahead: all that is folded from it."""
    return [keys.asset_key(layer, contract) for layer in ("deduped", "clean")]


def _source_asset(contract: TableContract, facts: dict[str, str]) -> dg.AssetSpec:
    return dg.AssetSpec(
        keys.source_key(contract),
        description=f"The table {contract.database}.{contract.table} in MySQL; never written.",
        group_name=keys.group_of(contract),
        kinds={"mysql", "table"},
        tags=keys.tags_of(contract),
        owners=contract.owners,
        metadata={
            "dagster/table_name": f"{contract.database}.{contract.table}",
            **facts,
        },
    )


def _layer(
    contract: TableContract, layer: str, days: dg.PartitionsDefinition, facts: dict[str, str]
) -> dg.AssetsDefinition:
    key, upstream = keys.asset_key(layer, contract), keys.asset_key(_UPSTREAM[layer], contract)
    spec = dg.AssetSpec(
        key,
        deps=[upstream],
        description=_WORDS[layer],
        partitions_def=days,
        group_name=keys.group_of(contract),
        kinds=_KINDS,
        tags=keys.tags_of(contract),
        owners=contract.owners,
        freshness_policy=_freshness(contract) if layer == "clean" else None,
        metadata={"dagster/table_name": _table_name(contract, layer), **facts},
    )
    pool = keys.pool_of(contract.source) if layer == "raw" else None
    # A copy that a run finds unchanged is not made again: there is nothing to fold either.
    required = not (layer == "raw" and contract.copies)
    return layer_asset(contract, spec, "assets.steps", layer, pool=pool, required=required)


def _freshness(contract: TableContract) -> dg.FreshnessPolicy | None:
    """When clean, and so the whole chain, counts as late."""
    fresh = contract.freshness
    if fresh is None:
        return None
    return dg.FreshnessPolicy.time_window(fresh.fail_after, fresh.warn_after)


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
