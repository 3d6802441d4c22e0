"""SQL models as assets: a step computes the partitions that a run was asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from dagster_mirrorlake.models.model_asset import ModelAsset
from dagster_mirrorlake.models.partition_mappings import EVERYTHING, Side, mapping_of
from dagster_mirrorlake.step_tags import step_tags


class ModelRunConfig(dg.Config):
    """How a run computes a model."""

    again: bool = False


def build_models(
    models: Sequence[ModelAsset],
    tables: Mapping[str, dg.AssetKey],
    days: Mapping[str, Side],
) -> list[dg.AssetsDefinition]:
    """An asset for each model.

    Args:
        tables: lake table, in lower case → the asset that makes it.
        days: lake table, in lower case → its partitions, where they are days of a column.
    """
    keys = {**tables, **{model.declaration.name: model.key for model in models}}
    sides = {**days, **{one.declaration.name: one.side for one in models}}
    return [_asset(model, keys, sides) for model in models]


def _mapping(model: ModelAsset, table: str, above: Side | None) -> dg.PartitionMapping | None:
    if model.side is None:
        return None
    if above is None:
        return EVERYTHING
    return mapping_of(model.kept, model.scopes, model.side, table, above)


def _asset(
    model: ModelAsset, keys: Mapping[str, dg.AssetKey], sides: Mapping[str, Side | None]
) -> dg.AssetsDefinition:
    deps = [
        dg.AssetDep(keys[name], partition_mapping=_mapping(model, name, sides.get(name)))
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
        from dagster_mirrorlake.models.steps import run

        yield from run(context, model, keys, again=config.again)

    return compute
