"""SQL models as assets: a step computes the partitions that a run was asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from dagster_mirrorlake.models import ModelAsset
from dagster_mirrorlake.step_tags import step_tags


class ModelRunConfig(dg.Config):
    """How a run computes a model."""

    again: bool = False


def build_models(
    models: Sequence[ModelAsset], tables: Mapping[str, dg.AssetKey]
) -> list[dg.AssetsDefinition]:
    """An asset for each model.

    Args:
        tables: lake table, in lower case → the asset that makes it.
    """
    keys = {**tables, **{model.declaration.name: model.key for model in models}}
    return [_asset(model, keys) for model in models]


def _asset(model: ModelAsset, keys: Mapping[str, dg.AssetKey]) -> dg.AssetsDefinition:
    everything = dg.AllPartitionMapping()
    deps = [
        dg.AssetDep(keys[name], partition_mapping=everything if model.partitions else None)
        for name in model.reads
        if name in keys
    ]
    spec = model.spec.replace_attributes(deps=deps)

    @dg.multi_asset(
        name="model__" + "__".join(model.key.path),
        specs=[spec],
        check_specs=model.checks,
        # A step reports checks by partition; and what is published may be looked at again.
        can_subset=bool(model.checks),
        partitions_def=model.partitions,
        backfill_policy=dg.BackfillPolicy.single_run() if model.partitions else None,
        required_resource_keys=model.names.all_of({"mirrorlake"}),
        op_tags=step_tags("clean"),
    )
    def compute(
        context: dg.AssetExecutionContext, config: ModelRunConfig
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetMaterialization]:
        # What a step does is imported when it runs: locations load faster.
        from dagster_mirrorlake.assets.model_steps import run

        yield from run(context, model, again=config.again)

    return compute
