"""Reports partitions of models to Dagster that are in the lake, and that it has no record of:
computed by the command line or under another instance, or wiped in the UI.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.models.model_asset import ModelAsset
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.sensors.requests import under_way
from mirrorlake.models.ledger import ModelRecords

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger
    from mirrorlake.models.compile.model import Model
    from mirrorlake.models.compute.model_run import ModelRun
    from mirrorlake.models.ledger import ModelPartition
    from mirrorlake.models.partition_states.states import States

_MOST_REPORTED = 500
"""Materialisations in one tick, and verdicts; the next one goes on."""


@dataclass(frozen=True)
class ModelReporter:
    """Reports partitions of models. To compile them takes seconds where there are many: it is done
    where the ledger has more partitions than Dagster."""

    models: Sequence[ModelAsset]

    @property
    def names(self) -> Names:
        """What the mirror's definitions are called."""
        return self.models[0].names

    def find(
        self, instance: dg.DagsterInstance, resources: Any, *, verdicts: bool
    ) -> tuple[list[dg.AssetMaterialization], list[dg.AssetCheckEvaluation]]:
        """Partitions that Dagster has no record of, and verdicts on those it has since a look."""
        ledger = resources.ledger.ledger
        lacking = _incomplete_models(instance, ledger, self.models)
        if not lacking and not verdicts:
            return [], []
        states = compile_states(resources.lake, ledger)
        events = list(unreported_partitions(instance, lacking, states))
        return events, list(unreported_verdicts(instance, self.models, states)) if verdicts else []


def compile_states(resource: Any, ledger: "Ledger") -> "States":
    """The models as they are now, and what is known of their partitions.

    Args:
        resource: the lake's, with the contracts.
    """
    from mirrorlake.models.contract_models import compile_project
    from mirrorlake.models.partition_states.states import States

    project, catalogue = compile_project(resource.contracts, resource.lake)
    return States(project, catalogue, resource.lake, ledger)


def _incomplete_models(
    instance: dg.DagsterInstance, ledger: "Ledger", models: Sequence[ModelAsset]
) -> list[ModelAsset]:
    """The models of which the ledger has partitions that Dagster has no record of, but for those
    that a run is at work on: it reports them itself. Nothing is compiled."""
    found: list[ModelAsset] = []
    for model in models:
        known = ModelRecords(ledger).partitions(model.declaration.name)
        there = _materialized(instance, model) if known else set[str]()
        keys = {model.by_name[name] for name in known if name in model.by_name}
        # The location may have been loaded before some of them existed.
        if keys - there or len(there) < len(known):
            found.append(model)
    if not found:
        return []
    busy = {key for _, some in under_way(instance) for key in some}
    return [model for model in found if model.key not in busy]


def unreported_partitions(
    instance: dg.DagsterInstance, models: Sequence[ModelAsset], states: "States"
) -> Iterator[dg.AssetMaterialization]:
    """Materialisations of partitions of the lake that this instance has no record of."""
    left = _MOST_REPORTED
    for model in models:
        compiled = states.project.models.get(model.declaration.name)
        if compiled is None:
            continue
        there = {
            model.key_of(compiled.by_key[key]) if model.partitions else "": record
            for key, record in states.records(compiled).items()
            if key in compiled.by_key
        }
        known = _materialized(instance, model)
        if model.partitions is not None:
            known |= there.keys() - set(model.partitions.get_partition_keys())
        for key in [key for key in there if key not in known][:left]:
            left -= 1
            record = there[key]
            yield dg.AssetMaterialization(
                model.key,
                description=f"Computed at {record.computed_at:%Y-%m-%d %H:%M:%S} UTC, by no run of "
                "this Dagster, or one that it has no record of",
                partition=key or None,
                metadata=_figures(compiled, record),
            )


def _materialized(instance: dg.DagsterInstance, model: ModelAsset) -> set[str]:
    """The partitions that Dagster has; '' stands for a model without any."""
    if model.partitions is None:
        return {""} if instance.get_latest_materialization_event(model.key) else set[str]()
    return instance.get_materialized_partitions(model.key)


def _figures(model: "Model", record: "ModelPartition") -> dict[str, int | float | str]:
    """A view has no rows of its own."""
    rows = {} if model.declaration.is_view else {"dagster/row_count": record.rows}
    return {**rows, "seconds": record.seconds, **cut_of(record)}


def cut_of(done: "ModelPartition | ModelRun") -> dict[str, str]:
    """The cut at which mirrored tables were read; nothing of main."""
    if done.cut is None or done.cut_at is None:
        return {}
    return {"cut": done.cut, "as of (UTC)": f"{done.cut_at:%Y-%m-%d %H:%M:%S}"}


def unreported_verdicts(
    instance: dg.DagsterInstance, models: Sequence[ModelAsset], states: "States"
) -> Iterator[dg.AssetCheckEvaluation]:
    """What was found of what these partitions expect, where this instance has no record of it: a
    verdict is about a materialisation, so it comes after the report of its partition. A run that is
    at work on a model reports its own."""
    from dagster_mirrorlake.models.expectation_checks import missing_verdicts

    busy = {key for _, some in under_way(instance) for key in some}
    idle = (model for model in models if model.key not in busy)
    compiled = ((model, states.project.models.get(model.declaration.name)) for model in idle)
    found = (
        verdict
        for model, one in compiled
        if one is not None
        for verdict in missing_verdicts(instance, model, one, states)
    )
    return islice(found, _MOST_REPORTED)
