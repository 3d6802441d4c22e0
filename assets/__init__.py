"""The assets: per source table a chain ``mysql`` → ``raw`` → ``deduped`` → ``clean``.

What belongs here: keys, partitions, what an asset is called and shown as. What doesn't: how a
table is loaded or folded (`mirrorlake.sync`).
"""

from assets.chain import build_chain, chain_keys, folded_keys
from assets.days import build_days

__all__ = ["build_chain", "build_days", "chain_keys", "folded_keys"]
