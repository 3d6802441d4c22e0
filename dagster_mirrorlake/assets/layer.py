"""One layer of a table's chain: an op of its own, made by constructors.

Not by the decorator, which looks at a function's signature for each asset; and what a step does is
imported when it runs. Five hundred tables would take several seconds more to load otherwise.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import dagster as dg

from dagster_mirrorlake.assets.keys import LOAD_TAG
from dagster_mirrorlake.names import Names, step_of
from dagster_mirrorlake.resources.failures import named_failures
from dagster_mirrorlake.step_tags import step_tags
from dagster_mirrorlake.table import Layer

if TYPE_CHECKING:
    from mirrorlake.workspace import Leasable

_FIGURES = {
    "rows": "rows read",
    "loads folded": "loads folded",
    "snapshots": "snapshots",
    "dagster/row_count": "rows in all",
}
"""Figures of a materialisation that its step's last line repeats, and their words."""
_IN = {"upstream": dg.In(dg.Nothing)}


class LayeredAsset(Protocol):
    """What has layers: a table of whichever kind, or what else is published."""

    @property
    def contract(self) -> "Leasable": ...
    @property
    def names(self) -> Names: ...
    @cached_property
    def specs(self) -> Mapping[Layer, dg.AssetSpec]: ...


def layer_asset(
    table: LayeredAsset,
    layer: Layer,
    steps: str,
    *,
    needs: frozenset[str] = frozenset(),
    pool: str | None = None,
    required: bool = True,
) -> dg.AssetsDefinition:
    """The asset of a layer, which has one upstream.

    Args:
        steps: the module whose ``STEPS`` says what each layer does.
        needs: resources that it takes, beside the engine.
        pool: where it waits for its turn.
        required: whether its step always makes what was requested: else what is downstream is
            skipped where it did not.
    """
    spec = table.specs[layer]
    (upstream,) = (dep.asset_key for dep in spec.deps)
    step = dg.OpDefinition(
        compute_fn=_step(table, steps, layer),
        name=step_of(spec.key),
        ins=_IN,
        outs={"result": dg.Out(dg.Nothing, is_required=required)},
        required_resource_keys=table.names.all_of({"mirrorlake", *needs}),
        pool=pool,
        tags=step_tags(layer),
    )
    return dg.AssetsDefinition(
        node_def=step,
        specs=[spec],
        keys_by_input_name={"upstream": upstream},
        keys_by_output_name={"result": spec.key},
        # Several days or snapshots of one run go in their order.
        backfill_policy=dg.BackfillPolicy.single_run(),
    )


def _step(
    table: LayeredAsset, steps: str, layer: Layer
) -> Callable[[dg.AssetExecutionContext, Any], Iterator[Any]]:
    def step(context: dg.AssetExecutionContext, _: Any) -> Iterator[Any]:
        name, started = table.contract.name, time.monotonic()
        context.log.info("table %s: %s begins%s", name, layer, _requested(context))
        figures: dict[str, str] = {}
        with named_failures(name):
            for event in import_module(steps).STEPS[layer](context, table):
                figures |= _figures(event)
                yield event
        words = ", ".join([*figures.values(), f"{time.monotonic() - started:.1f} s"])
        context.log.info("table %s: %s ended: %s", name, layer, words)

    return step


def _requested(context: dg.AssetExecutionContext) -> str:
    """The partitions of a step, as a person would say them."""
    tags = context.run.tags
    first = tags.get("dagster/asset_partition_range_start", tags.get("dagster/partition", ""))
    last = tags.get("dagster/asset_partition_range_end", first)
    load = tags.get(LOAD_TAG)
    partitions = first if first == last else f"{first} to {last}"
    return f"{f': {partitions}' if partitions else ''}{f' ({load})' if load else ''}"


def _figures(event: Any) -> dict[str, str]:
    """What a step's own result says of its rows, for its last line."""
    metadata = event.metadata or {} if isinstance(event, dg.MaterializeResult) else {}
    return {
        name: f"{metadata[name]:,} {words}"
        for name, words in _FIGURES.items()
        if isinstance(metadata.get(name), int)
    }
