"""The step of an asset's checks: one op, of which each check can be run alone."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import dagster as dg

from dagster_mirrorlake.names import step_of
from dagster_mirrorlake.step_tags import step_tags

_IN, _OUT = {"asset": dg.In(dg.Nothing)}, dg.Out(dg.Nothing, is_required=False)


def checks_in_one_step(
    key: dg.AssetKey,
    specs: Sequence[dg.AssetCheckSpec],
    compute: Callable[..., Any],
    resources: Collection[str],
    name: str | None = None,
) -> dg.AssetChecksDefinition:
    """The checks of one asset as one step, made by constructors as the ops of layers are.

    Args:
        key: the asset of all of them.
        compute: yields a result for each check that is selected.
        resources: the keys of those that it takes.
        name: of the step; by default the asset's with ``__checks``.
    """
    outputs = {spec.name: spec for spec in specs}
    step = dg.OpDefinition(
        compute_fn=compute,
        name=name or f"{step_of(key)}__checks",
        ins=_IN,
        outs=dict.fromkeys(outputs, _OUT),
        required_resource_keys=set(resources),
        tags=step_tags("clean"),
    )
    return dg.AssetChecksDefinition(
        node_def=step,
        keys_by_input_name={"asset": key},
        keys_by_output_name={},
        check_specs_by_output_name=outputs,
        can_subset=True,
    )
