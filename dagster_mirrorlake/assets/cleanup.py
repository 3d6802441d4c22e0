"""The cleanup of a source: an asset whose materialisation is what it put right."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.keys import GROUP, cleanup_key
from dagster_mirrorlake.names import step_of
from dagster_mirrorlake.table import LAYERS, MirroredTable


def build_cleanup(source: str, tables: Sequence[MirroredTable]) -> dg.AssetsDefinition:
    """Settles what dead runs left of these tables of a source and removes their old orphans."""
    names = tables[0].names
    key = cleanup_key(source, names)
    step = dg.OpDefinition(
        compute_fn=_step(source, tables),
        name=step_of(key),
        outs={"result": dg.Out(dg.Nothing)},
        # Before the `gaps` of its run: they are to see what it settled.
        tags={"dagster/priority": str(len(LAYERS))},
        required_resource_keys=names.all_of({"mirrorlake"}),
    )
    spec = dg.AssetSpec(
        key,
        description=f"What dead runs left of the tables of source {source}, put right. Queries no "
        "source and starts no Spark.",
        group_name=GROUP,
        kinds={"iceberg"},
    )
    return dg.AssetsDefinition(
        node_def=step, specs=[spec], keys_by_input_name={}, keys_by_output_name={"result": key}
    )


def _step(source: str, tables: Sequence[MirroredTable]) -> Any:
    def step(context: dg.AssetExecutionContext, _: Any) -> Iterator[Any]:
        from dagster_mirrorlake.assets.cleanup_step import clean_up

        yield from clean_up(context, source, tables)

    return step
