"""The chain of a table of tenants: its source asset, and raw, deduped and clean made by one step.

One step, because the engine reads the tenants that moved, folds them and shows them under one lease
and in one call: a raw alone would be a state that no other command leaves.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_mirrorlake.step_tags import step_tags
from dagster_mirrorlake.table import LAYERS
from dagster_mirrorlake.tenants import MirroredTenants


class TenantsRun(dg.Config):
    """Which tenants a run reads, and how; all that moved by default."""

    databases: list[str] = Field(
        default=[], description="Only the tenants with these databases. Empty: all."
    )
    again: bool = Field(
        default=False, description="Read tenants that their server shows to be unchanged, too."
    )
    accept_smaller: bool = Field(
        default=False,
        description="Take copies that are far smaller than the last ones, and let many tenants be "
        "gone at once.",
    )


def build_tenants_chain(tenants: MirroredTenants) -> list[dg.AssetSpec | dg.AssetsDefinition]:
    """The source asset of a table of tenants, and its chain: the lake's layers in one step, and
    deduped in BigQuery, where it is published there, in another."""

    @dg.multi_asset(
        name=f"tenants__{tenants.plain_name}",
        specs=[tenants.specs[layer] for layer in LAYERS],
        can_subset=False,
        required_resource_keys=tenants.names.all_of({"mirrorlake"}),
        pool=tenants.pool,
        op_tags=step_tags("raw"),
    )
    def chain(
        context: dg.AssetExecutionContext, config: TenantsRun
    ) -> Iterator[dg.MaterializeResult[Any]]:
        # What a step does is imported when it runs: locations load faster.
        from dagster_mirrorlake.assets.tenant_steps import sync
        from mirrorlake.operations.tenants.results import SyncTerms

        terms = SyncTerms(
            databases=frozenset(config.databases),
            accept_smaller=config.accept_smaller,
            again=config.again,
        )
        yield from sync(context, tenants, terms)

    return [tenants.specs["source"], chain]
