"""The assets: per source table a chain ``mysql`` → ``raw`` → ``deduped`` → ``clean``, and per
source its ``cleanup`` and its ``log``, and one ``maintenance`` of the lake.

What belongs here: keys, partitions, what an asset is called and shown as. What doesn't: how a
table is loaded or folded (`mirrorlake.operations.loading.sync`).
"""

from dagster_mirrorlake.assets.chain import build_chain
from dagster_mirrorlake.assets.cleanup import build_cleanup
from dagster_mirrorlake.assets.maintenance import build_maintenance
from dagster_mirrorlake.assets.source_log import build_source_log
from dagster_mirrorlake.assets.tenants import build_tenants_chain

__all__ = [
    "build_chain",
    "build_cleanup",
    "build_maintenance",
    "build_source_log",
    "build_tenants_chain",
]
