"""The sensor of SQL models: it requests the partitions whose inputs are complete, and that are
missing or stale, and reports those that were computed elsewhere."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from dagster_mirrorlake.models.model_asset import ModelAsset
from dagster_mirrorlake.models.reports import (
    compile_states,
    unreported_partitions,
    unreported_verdicts,
)
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import RANGE_END, RANGE_START, STATUS, key_of, under_way
from mirrorlake.models.scope_values.comprehension import text_of
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.models.compile.model import Model
    from mirrorlake.models.partition_states.due import DueModel
    from mirrorlake.models.partition_states.partition_state import PartitionState
    from mirrorlake.models.partition_states.states import States

INTERVAL_SECONDS = 60
MOST_RANGES = 5
"""Runs of one model that are requested at once; a run has a process of its own."""
ATTEMPTS = 3
"""Runs that are requested for the same partitions of the same inputs, until one succeeds."""
MODEL_TAG, WORK_TAG = "mirrorlake/model", "mirrorlake/work"


def build_models_sensor(models: Sequence[ModelAsset], *, running: bool) -> dg.SensorDefinition:
    """The sensor of all models of a mirror.

    A model that a run works for is left alone until it ends, and so is one whose runs of the same
    partitions failed three times: it is requested again when something moves, or by a person.
    """
    names = models[0].names

    @dg.sensor(
        name=names.of("models"),
        asset_selection=[model.key for model in models],
        minimum_interval_seconds=INTERVAL_SECONDS - 1,
        required_resource_keys=names.all_of({"ledger", "lake"}),
        default_status=STATUS[running],
        description="Requests partitions of SQL models that are missing or stale, as soon as what "
        "they read is complete.",
    )
    def found(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        with dagster_errors():
            resources = names.resources(context)
            states = compile_states(resources.lake, resources.ledger.ledger)
            for problem in states.project.problems:
                context.log.warning("A model was left out: %s", problem)
            return _requested(context, models, states)

    return found


def _requested(
    context: dg.SensorEvaluationContext, models: Sequence[ModelAsset], states: "States"
) -> dg.SensorResult:
    from mirrorlake.models.partition_states.due import find_due

    known = {model.declaration.name: model for model in models}
    busy = _busy(context.instance, known)
    requests: list[dg.RunRequest] = []
    words: list[str] = []
    for due in find_due(states):
        model = known.get(due.model)
        if model is None:
            words.append(f"{due.model} is new: the location has to load again")
        elif due.model in busy:
            words.append(f"a run of {due.model} is under way")
        elif due.states:
            for request in _requests(model, due, states):
                work = request.tags[WORK_TAG]
                failed = _failures(context.instance, work)
                if failed >= ATTEMPTS:
                    words.append(
                        f"{due.model} failed {plural(failed, 'time')}: it is requested no more"
                    )
                else:
                    requests.append(
                        request.with_replaced_attrs(
                            run_key=key_of(states.ledger, f"{work}-{failed}")
                        )
                    )
        if due.waiting:
            words.append(_waiting(due))
    for one in words:
        context.log.info(one)
    events = [
        *unreported_partitions(context.instance, models, states),
        *unreported_verdicts(context.instance, models, states),
    ]
    if requests:
        return dg.SensorResult(run_requests=requests, asset_events=events)
    why = "; ".join(words) or f"All partitions of {len(known):,} models are computed"
    return dg.SensorResult(skip_reason=why, asset_events=events)


def _waiting(due: "DueModel") -> str:
    key, why = next(iter(due.waiting.items()))
    more = f" and {len(due.waiting) - 1:,} more wait" if len(due.waiting) > 1 else " waits"
    return f"{due.model} {key}".strip() + f"{more}: {why}"


def _busy(instance: dg.DagsterInstance, models: Mapping[str, ModelAsset]) -> set[str]:
    chosen = {key for _, some in under_way(instance) for key in some}
    return {name for name, model in models.items() if model.key in chosen}


def _failures(instance: dg.DagsterInstance, work: str) -> int:
    """How many runs of some work failed. One that was cancelled is a person's word, and counts."""
    ended = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    return instance.get_runs_count(dg.RunsFilter(tags={WORK_TAG: work}, statuses=ended))


def _requests(model: ModelAsset, due: "DueModel", states: "States") -> Iterator[dg.RunRequest]:
    compiled = states.project.model(due.model)
    for found in _ranges(model, compiled, due):
        digest = hashlib.sha256(f"{due.model}\0{compiled.fingerprint}".encode())
        for state in found.states:
            inputs = states.inputs(compiled, compiled.by_key[state.key])
            digest.update(f"\0{state.key}\0{sorted(inputs.items())}".encode())
        tags = {MODEL_TAG: due.model, WORK_TAG: digest.hexdigest()[:16]}
        if found.ends is not None:
            tags |= {RANGE_START: found.ends[0], RANGE_END: found.ends[1]}
        whys = sorted({one.why for one in found.states})
        tags["mirrorlake/reason"] = "; ".join(whys[:3])[:250]
        yield dg.RunRequest(asset_selection=[model.key], tags=tags)


@dataclass(frozen=True)
class _Range:
    """Partitions that one run computes: a range of keys, of two dimensions a rectangle."""

    states: "Sequence[PartitionState]"
    ends: tuple[str, str] | None


def _ranges(model: ModelAsset, compiled: "Model", due: "DueModel") -> Sequence[_Range]:
    """What is due, in as few runs as there are stretches of it; with more than `MOST_RANGES`, a
    stretch may hold partitions that need nothing."""
    definition = model.partitions
    if definition is None:
        return [_Range(due.states, None)]
    for joined in (False, True):
        if isinstance(definition, dg.MultiPartitionsDefinition):
            found = _rectangles(definition, compiled, due, joined=joined)
        else:
            by_key = {model.key_of(compiled.by_key[one.key]): one for one in due.states}
            waiting = {model.key_of(compiled.by_key[key]) for key in (*due.waiting, *due.missed)}
            keys = definition.get_partition_keys()
            stretches = _stretches(keys, {*by_key}, waiting, joined=joined)
            found = [_Range([by_key[k] for k in some], (some[0], some[-1])) for some in stretches]
        if len(found) <= MOST_RANGES:
            break
    return found[:MOST_RANGES]


def _rectangles(
    definition: dg.MultiPartitionsDefinition, compiled: "Model", due: "DueModel", *, joined: bool
) -> list[_Range]:
    """Stretches of the dimension that has most values, each of all neighbours in the other one that
    have the same stretches."""
    names = sorted(
        definition.partitions_defs, key=lambda one: len(one.partitions_def.get_partition_keys())
    )
    other, along = names

    def place(key: str) -> tuple[str, str]:
        scope = compiled.by_key[key]
        return text_of(scope[other.name]), text_of(scope[along.name])

    by_place = {place(one.key): one for one in due.states}
    waiting = {place(key) for key in (*due.waiting, *due.missed)}
    blocks: list[tuple[list[str], list[list[str]]]] = []
    for row in other.partitions_def.get_partition_keys():
        stretches = _stretches(
            along.partitions_def.get_partition_keys(),
            {at for of, at in by_place if of == row},
            {at for of, at in waiting if of == row},
            joined=joined,
        )
        if blocks and blocks[-1][1] == stretches:
            blocks[-1][0].append(row)
        else:
            blocks.append(([row], stretches))

    def key(row: str, at: str) -> str:
        return dg.MultiPartitionKey({other.name: row, along.name: at})

    return [
        _Range(
            [by_place[row, at] for row in rows for at in some],
            (key(rows[0], some[0]), key(rows[-1], some[-1])),
        )
        for rows, stretches in blocks
        for some in stretches
    ]


def _stretches(
    keys: Sequence[str], wanted: set[str], waiting: set[str], *, joined: bool
) -> list[list[str]]:
    """What is wanted as ranges of all keys, in their order. None holds one that waits, or was
    missed: a run of it would fail.

    Args:
        joined: whether a range may hold keys that need nothing.

    >>> _stretches("abcdef", {"a", "b", "d", "f"}, {"e"}, joined=False)
    [['a', 'b'], ['d'], ['f']]
    >>> _stretches("abcdef", {"a", "b", "d", "f"}, {"e"}, joined=True)
    [['a', 'b', 'd'], ['f']]
    """
    found: list[list[str]] = [[]]
    for key in keys:
        if key in wanted:
            found[-1].append(key)
        elif key in waiting or not joined:
            found.append([])
    return [one for one in found if one]
