"""Models are computed: some partitions at a time, each time in one commit of the table.

Their rows are written to a branch, and published by moving main: readers see
the old rows or the new ones. The commit says what it computed, and from what; a run that dies
before it is published leaves nothing that anybody sees, one that dies after it is found by the
commit.

What belongs here: partitions, from due to published. What doesn't: which are due
(`mirrorlake.models.partition_states.states`).
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from shlex import quote
from typing import Any

from mirrorlake.destinations.iceberg.commits.heads import ModelTable
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.settings import activate
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.errors import CommitConflict, ExpectationFailed, LakeError, LandingError, ModelError
from mirrorlake.failpoints import failpoint
from mirrorlake.merge.staging import branch_sql, drop_stale, new_branch
from mirrorlake.models.changes.since_run import record_model
from mirrorlake.models.checks.before_publishing import Checking, failure_of
from mirrorlake.models.checks.load_schemas import load_schemas
from mirrorlake.models.compile.model import Model
from mirrorlake.models.compile.snapshot_models import is_over
from mirrorlake.models.compute.model_run import ModelRun, OnComputed
from mirrorlake.models.compute.run_view import run_view
from mirrorlake.models.ledger import ModelPartition, ModelRecords
from mirrorlake.models.partition_states.cut_reads import ModelReading
from mirrorlake.models.partition_states.drop_expired import (
    drop_gone,
    uncovered_keys,
    uncovered_words,
)
from mirrorlake.models.partition_states.lake_tables import model_table, prepare_table
from mirrorlake.models.partition_states.moved_tables import put_model_right
from mirrorlake.models.partition_states.states import States
from mirrorlake.models.partition_states.table_history import PARTITIONS, keys_there, recorded_by
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.models.spark.partition_rows import batch_condition, batch_rows, row_errors
from mirrorlake.serving.next_tables import show_next_table
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

_SCOPES_A_COMMIT = 32
"""Partitions in one commit: Spark plans a union of that many queries in about a second."""
_OF_A_PARTITION = (LakeError, LandingError, ModelError)
"""What one partition may fail by, and others not."""
_WAITED_FOR = {
    "": "not loaded and folded again yet",
    "stale": "stale",
    "missing": "not computed yet",
}
"""The state of what a partition waits for (empty: days of a mirrored table) → words for it."""


def run_model(
    workspace: Workspace,
    states: States,
    model: Model,
    scopes: Sequence[ScopeValues],
    *,
    again: bool = False,
    rebuild: bool = False,
    watch: OnComputed | None = None,
) -> ModelRun:
    """Compute the partitions of a model that are missing or stale.

    Args:
        again: compute the others, too.
        rebuild: make the table again, if its columns are not the model's: readers have the old one
            until all of its partitions are computed.

    Raises:
        ModelError: a partition reads others that are not computed, or the query does not give what
            was inferred of it: nothing of that partition is visible.
        ExpectationFailed: partitions are not as the model expects, and were not published; the
            others were.
        SchemaError: the table has other columns than the model, and rows by them.
        LeaseHeld: another run computes the model.
        LakeError, LedgerError, MachineError
    """
    held = ModelTable(model.name, model_table(model))
    with workspace.leased(held, wait=False) as own:
        if model.declaration.is_view:
            return run_view(own, states, model, again=again, watch=watch)
        if own.moved and put_model_right(own, held, is_snapshot=model.declaration.is_snapshot):
            states.made_again(model)
        states.look_again(model)
        possible, missed = _possible(states, model, scopes)
        due = [one for one in possible if again or states.of(model, one).is_due]
        if rebuild and model.declaration.is_snapshot:
            raise ModelError(
                f"{model.name} is a snapshot: what was taken before can't be taken again",
                next_step="Give the model another name, and keep its table",
            )
        checking = Checking(own, model, lambda: states.records(model))
        load_schemas(model)
        done = _compute_all(states, checking, due, rebuild=rebuild, watch=watch)
        # A reader that does not compile may be one that needs them.
        dropped = drop_gone(own, model) if not states.project.problems else ()
        if not due and scopes:
            record_model(own.ledger, model)
    warnings = (*checking.warnings, *uncovered_words(uncovered_keys(own.lake, model)))
    counts = len(dropped), missed
    unchanged = len(scopes) - len(due) - missed
    found = ModelRun(model.name, tuple(done), unchanged, warnings, *counts)
    reading = states.readings.of(model)
    found = replace(found, cut=reading.cut_name, cut_at=reading.cut_at, why_main=reading.why)
    if checking.refused:
        failure = failure_of(model, checking.refused)
        failure.run = found
        raise failure
    return found


def _compute_all(
    states: States,
    checking: Checking,
    due: Sequence[ScopeValues],
    *,
    rebuild: bool,
    watch: OnComputed | None,
) -> list[ModelPartition]:
    """Compute these partitions, each shown as soon as it is computed; where the table is made
    again, all of them together."""
    workspace, model = checking.workspace, checking.model
    done: list[ModelPartition] = []
    recorded = False
    try:
        for number, batch in enumerate(_batches(due, model)):
            refuse_waiting(states, model, batch)
            if number == 0:
                checking.table = prepare_table(workspace, model, rebuild=rebuild)
                _refuse_parts(checking, due)
            for found in _computed(states, checking, batch):
                states.forget(model, found.key)
                done.append(found)
                if watch is not None:
                    watch(len(done))
            if done and not recorded and not checking.is_beside:
                record_model(workspace.ledger, model)
                recorded = True
        return _show_rebuilt(states, checking, done) if checking.is_beside else done
    finally:
        if checking.is_beside:
            workspace.lake.drop(checking.table)  # it is not there where it was shown


def _refuse_parts(checking: Checking, due: Sequence[ScopeValues]) -> None:
    """See that a table that is made again gets all partitions that readers have of the old one.

    Raises:
        ModelError: some were not chosen.
    """
    model = checking.model
    old = checking.workspace.lake.load(model_table(model)) if checking.is_beside else None
    if old is None:
        return
    chosen = {model.key_of(scope) for scope in due}
    lost = sorted(keys_there(model, old) & model.by_key.keys() - chosen)
    if lost:
        raise ModelError(
            f"{model.name}: its table is made again, and {len(lost):,} of its partitions "
            f"({lost[0]}{' …' if len(lost) > 1 else ''}) were not chosen: readers would lose them",
            next_step=f"mirrorlake run {quote(model.name)} --rebuild computes all of them",
        )


def _show_rebuilt(
    states: States, checking: Checking, done: list[ModelPartition]
) -> list[ModelPartition]:
    """Give the table that was written beside the model's own its name, if all of it is as the model
    expects; else readers keep the old one, and nothing was computed."""
    workspace, model = checking.workspace, checking.model
    if checking.refused:
        return []
    show_next_table(workspace, checking.table, model_table(model))
    record_model(workspace.ledger, model)
    _record(checking, done)
    states.made_again(model)
    return done


def _batches(due: Sequence[ScopeValues], model: Model) -> Iterator[Sequence[ScopeValues]]:
    size = _SCOPES_A_COMMIT if model.partitioned else 1
    for start in range(0, len(due), size):
        yield due[start : start + size]


def _possible(
    states: States, model: Model, scopes: Sequence[ScopeValues]
) -> tuple[Sequence[ScopeValues], int]:
    """Those that can be computed, and how many were missed.

    Raises:
        ModelError: none can, and one of them never was.
    """
    over = {model.key_of(scope) for scope in scopes if states.why_over(model, scope)}
    found = [scope for scope in scopes if model.key_of(scope) not in over]
    there = [states.of(model, model.by_key[key]) for key in sorted(over)]
    missed = [state for state in there if state.word == "missed"]
    if missed and not found:
        raise ModelError(
            f"{model.name} {missed[0].key} can't be computed any more: {missed[0].why}",
            next_step=f"mirrorlake run {quote(model.name)} computes what can be",
        )
    return found, len(missed)


def refuse_waiting(states: States, model: Model, batch: Sequence[ScopeValues]) -> None:
    """See that all that some partitions read is there.

    Raises:
        ModelError: it is not, with what is to be done first.
    """
    for scope in batch:
        if model.declaration.is_snapshot and is_over(model, scope, datetime.now(UTC)):
            raise ModelError(
                f"{model.name} {model.key_of(scope)}: its time is over by now",
                next_step=f"mirrorlake run {quote(model.name)} takes the one of now",
            )
        state = states.of(model, scope)
        if state.waits:
            above = state.waits[0].split(" ")[0]
            is_model = above in states.project.models
            found = {states.state_of(one) for one in state.waits}
            words = " or ".join(word for one, word in _WAITED_FOR.items() if one in found)
            raise ModelError(
                f"{model.name} {state.key}: it reads {', '.join(state.waits[:3])}"
                f"{' …' if len(state.waits) > 3 else ''}, {words}",
                next_step=f"mirrorlake run {quote(above)}, or --upstream"
                if is_model
                else "mirrorlake backfill --invalid",
            )


# --- partitions -----------------------------------------------------------------------------------


def _computed(
    states: States, checking: Checking, batch: Sequence[ScopeValues]
) -> Iterable[ModelPartition]:
    """These partitions in one commit, but for those that are not as expected; where that fails,
    each in one of its own: those before the one that fails are published, and it is named."""
    if len(batch) == 1:
        return _compute_alone(states, checking, batch[0])
    model = checking.model
    try:
        return _compute(states, checking, batch)
    except ExpectationFailed as error:
        as_expected = [scope for scope in batch if model.key_of(scope) not in error.keys]
        logger.warning("model %s: refused: %s", model.name, ", ".join(error.keys))
        return _computed(states, checking, as_expected) if as_expected else ()
    except _OF_A_PARTITION as error:
        if isinstance(error, CommitConflict):
            raise
        logger.warning("model %s: %d partitions failed together", model.name, len(batch))
    return itertools.chain.from_iterable(_compute_alone(states, checking, scope) for scope in batch)


def _compute_alone(
    states: States, checking: Checking, scope: ScopeValues
) -> Iterable[ModelPartition]:
    try:
        return _compute(states, checking, [scope])
    except ExpectationFailed as error:
        logger.warning("model %s: refused: %s", checking.model.name, ", ".join(error.keys))
        return ()
    except _OF_A_PARTITION as error:
        error.located(f"{checking.model.name} {checking.model.key_of(scope)}".strip())
        raise


def _compute(
    states: States, checking: Checking, batch: Sequence[ScopeValues]
) -> list[ModelPartition]:
    """Some partitions, in one commit."""
    workspace, model = checking.workspace, checking.model
    begun = time.monotonic()
    said: dict[str, Any] = {
        "fingerprint": model.fingerprint,
        "run": workspace.run_id,
        # Taken before the query: what moves meanwhile makes a partition stale, never wrongly good.
        "partitions": {model.key_of(scope): states.inputs(model, scope) for scope in batch},
    }
    reading = states.readings.of(model)
    if reading.cut is not None:
        said["cut"] = {"name": reading.cut.name, "at": reading.cut.at.isoformat()}
    if answers := states.dirty.answered(model.name, said["partitions"]):
        said["answers"] = answers
    words = json.dumps(said)
    states.remember(model, batch)
    published = _publish(checking, batch, words, reading)
    failpoint("model.published")
    table = workspace.lake.load(checking.table)
    commit = table.snapshot_by_id(published) if table is not None else None
    assert table is not None  # noqa: S101
    assert commit is not None  # noqa: S101
    seconds = round((time.monotonic() - begun) / len(batch), 3)
    found = [replace(one, seconds=seconds) for one in recorded_by(model, table, words, commit)]
    if not checking.is_beside:
        _record(checking, found)
    failpoint("model.recorded")
    return found


def _record(checking: Checking, found: Sequence[ModelPartition]) -> None:
    """Write down what readers have of some partitions now, and the table as that left it."""
    workspace, identifier = checking.workspace, model_table(checking.model)
    held = ModelTable(checking.model.name, identifier)
    workspace.ledger.together(
        lambda: ModelRecords(workspace.ledger).record_partitions(found),
        workspace.left(held.name, "model", identifier),
    )


def _publish(
    checking: Checking, batch: Sequence[ScopeValues], said: str, reading: ModelReading
) -> int:
    """Write the rows of some partitions to a branch, and move main to it; main's new head.

    Args:
        said: what the commit says of them.
    """
    workspace, model, identifier = checking.workspace, checking.model, checking.table
    lake, spark = workspace.lake, workspace.spark.get()
    rows = batch_rows(spark, model, batch, reading.written(model))
    head, branch = lake.head(identifier), new_branch()
    if head is None:
        lake.begin_branch(identifier, branch)
    else:
        lake.create_branch(identifier, branch, head)
    try:
        with spark_errors(str(identifier)), row_errors(model):
            activate(spark)
            writer: Any = rows.writeTo(branch_sql(identifier, branch))
            writer = writer.option(f"snapshot-property.{PARTITIONS}", said)
            writer.overwrite(batch_condition(model, batch))
        failpoint("model.staged")
        checking.look(batch, branch)
        flush_commits(lake.load(identifier), head, branch)
        workspace.check_lease()
        failpoint("model.before_publish")
        return lake.publish_branch(identifier, branch, head)
    except BaseException:
        drop_stale(lake, identifier)
        raise


# --- views ----------------------------------------------------------------------------------------


def with_those_above(models: Mapping[str, Model], name: str) -> list[Model]:
    """A model after all that it reads, in order."""
    wanted: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in models and one not in wanted:
            wanted.add(one)
            waiting += models[one].reads
    return [model for model in models.values() if model.name in wanted]
