"""The factory for tables of mode ``snapshot``: one dynamic partition per snapshot that landed."""

import dagster as dg

from assets import keys
from assets.layer import layer_asset
from mirrorlake.config import TableContract

_WORDS = {
    "raw": "A complete copy where it landed: its files, sizes and digests. Nothing is copied.",
    "deduped": "Exactly one row per key. Partition N means: snapshot N is folded and published.",
    "clean": "What people query: personal data masked or gone, card data never read.",
}
_UPSTREAM = {"raw": "landing", "deduped": "raw", "clean": "deduped"}
UNIQUE = "unique_key"
FRESH = "fresh"
COUNT = "row_count"
EXACT = "exact_match"
SUSPECTED = "suspected_pii"
CHECKS = {
    "published": "The version that readers see holds every snapshot of the run.",
    UNIQUE: "No two rows share a key.",
    COUNT: "As many rows as the newest snapshot has, and those that it lacks.",
    EXACT: "Every row that readers see, kept ones and _mirror_snapshot too, is what the files of "
    "the snapshots in it say, read again.",
    FRESH: "Snapshots are published within the limit after their files were first seen; none is "
    "refused, stuck, or withdrawn by a rollback.",
    SUSPECTED: "A sample of clean's new rows: no column without a rule holds what looks personal.",
}


def partitions_name(contract: TableContract) -> str:
    """The name of a table's dynamic partitions; their keys are ids of snapshots."""
    return f"snapshots/{contract.name}"


def build_snapshot_chain(
    contract: TableContract, needs: frozenset[str] = frozenset()
) -> list[dg.AssetSpec | dg.AssetsDefinition]:
    """A table's landing as an external asset, and the three assets of its chain.

    Args:
        needs: resources that reading the landing takes.
    """
    facts = {"mode": contract.mode, "key": ", ".join(contract.key)}
    source = dg.AssetSpec(
        keys.asset_key("landing", contract),
        description="The folder in which complete copies land; only read.",
        group_name=keys.group_of(contract),
        tags=keys.tags_of(contract),
        owners=contract.owners,
        metadata=facts,
    )
    return [source, *(_layer(contract, layer, facts, needs) for layer in keys.LAYERS)]


def snapshot_keys(contract: TableContract) -> list[dg.AssetKey]:
    """What a snapshot's arrival requests: the whole chain."""
    return [keys.asset_key(layer, contract) for layer in keys.LAYERS]


def _layer(
    contract: TableContract, layer: str, facts: dict[str, str], needs: frozenset[str]
) -> dg.AssetsDefinition:
    key, upstream = keys.asset_key(layer, contract), keys.asset_key(_UPSTREAM[layer], contract)
    table = f"{getattr(contract.namespaces, layer)}.{contract.table}"
    spec = dg.AssetSpec(
        key,
        deps=[upstream],
        description=_WORDS[layer],
        partitions_def=dg.DynamicPartitionsDefinition(name=partitions_name(contract)),
        group_name=keys.group_of(contract),
        kinds={"iceberg", "spark"} if layer != "raw" else {"file"},
        tags=keys.tags_of(contract),
        owners=contract.owners,
        metadata={**facts, **({"dagster/table_name": table} if layer != "raw" else {})},
    )
    return layer_asset(contract, spec, "assets.snapshot_steps", layer, needs=needs)
