"""The jobs that a person starts from the UI: sync, follow, backfill, prove, repair, refold, hold.

What belongs here: what a person can say in the launchpad, and what a run reports of each table.
What doesn't: doing it (`mirrorlake.operations`), or what the steps of assets do
(`dagster_mirrorlake.assets`).
"""

from dagster_mirrorlake.jobs.follow import build_follow
from dagster_mirrorlake.jobs.holds import build_hold, build_release
from dagster_mirrorlake.jobs.loads import build_backfill_errored, build_refold, build_sync
from dagster_mirrorlake.jobs.proofs import build_prove, build_repair
from dagster_mirrorlake.jobs.tenants import build_prove_tenants

__all__ = [
    "build_backfill_errored",
    "build_follow",
    "build_hold",
    "build_prove",
    "build_prove_tenants",
    "build_refold",
    "build_release",
    "build_repair",
    "build_sync",
]
