"""The assets: per source table a chain ``mysql`` → ``raw`` → ``deduped`` → ``clean``, and per
source its ``cleanup``, and one ``maintenance`` of the lake.

What belongs here: keys, partitions, what an asset is called and shown as. What doesn't: how a
table is loaded or folded (`mirrorlake.operations.sync`).
"""

from assets.chain import build_chain, chain_keys, folded_keys
from assets.cleanup import build_cleanup
from assets.days import build_days
from assets.maintenance import build_maintenance
from assets.snapshots import build_snapshot_chain

__all__ = [
    "build_chain",
    "build_cleanup",
    "build_days",
    "build_maintenance",
    "build_snapshot_chain",
    "chain_keys",
    "folded_keys",
]
