"""The cleanup of a source: an asset whose materialisation is what it put right."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.keys import GROUP, cleanup_key


def build_cleanup(source: str) -> dg.AssetsDefinition:
    """Settles what dead runs left of a source's tables and removes their old orphans."""
    key = cleanup_key(source)
    step = dg.OpDefinition(
        compute_fn=_step(source),
        name=key.to_python_identifier(),
        outs={"result": dg.Out(dg.Nothing)},
        required_resource_keys={"mirrorlake"},
    )
    spec = dg.AssetSpec(
        key,
        description=f"What dead runs left of the tables of source {source}, put right. Asks no "
        "source and starts no Spark.",
        group_name=GROUP,
        kinds={"iceberg"},
    )
    return dg.AssetsDefinition(
        node_def=step, specs=[spec], keys_by_input_name={}, keys_by_output_name={"result": key}
    )


def _step(source: str) -> Any:
    def step(context: dg.AssetExecutionContext, _: Any) -> Iterator[Any]:
        from dagster_mirrorlake.assets.steps import clean_up

        yield from clean_up(context, source)

    return step
