"""What the step of a SQL model does: it computes partitions, and says what they expect."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.columns import COLUMN_LINEAGE, COLUMN_SCHEMA
from dagster_mirrorlake.models.expectation_checks import report_checks
from dagster_mirrorlake.models.model_asset import ModelAsset
from dagster_mirrorlake.models.reports import cut_of
from dagster_mirrorlake.resources.failures import dagster_errors, named_failures
from mirrorlake.errors import ExpectationFailed, ModelError
from mirrorlake.models.checks.before_publishing import Checking
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.compile.project import stored_columns
from mirrorlake.models.compute.model_run import ModelRun
from mirrorlake.models.compute.run import run_model
from mirrorlake.models.contract_models import compile_project
from mirrorlake.models.partition_states.states import States
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.workspace import Workspace

Events = Iterator[dg.MaterializeResult[Any] | dg.AssetMaterialization]


@dataclass(frozen=True)
class _Step:
    """A model's step: what it is asked for, and what that takes.

    Attributes:
        keys: lake table, in lower case → the asset that makes it.
        absent: Dagster's keys that are asked for, and are no partitions by now.
    """

    asset: ModelAsset
    workspace: Workspace
    project: Project
    model: Model
    scopes: Sequence[ScopeValues]
    states: States
    keys: Mapping[str, dg.AssetKey]
    absent: Sequence[str]


def run(
    context: dg.AssetExecutionContext,
    model: ModelAsset,
    keys: Mapping[str, dg.AssetKey],
    *,
    again: bool,
) -> Events:
    """Compute the partitions of a run that are missing or stale; all of them are computed then, but
    for those whose rows are not as the model expects. Of a run of checks alone, look at the rows
    that are published.

    Args:
        keys: lake table, in lower case → the asset that makes it.

    Raises:
        Failure: the model does not compile, a partition that it reads is not computed, the engine
            failed, rows are not as expected, or a partition can't be computed any more.
    """
    name, refused = model.declaration.name, None
    with named_failures(name), dagster_errors(context):
        step = _begun(context, model, keys)
        if not context.selected_asset_keys:
            _look_again(context, step)
            return
        try:
            done = run_model(step.workspace, step.states, step.model, step.scopes, again=again)
        except ExpectationFailed as error:
            refused, done = error, error.run
    with named_failures(name), dagster_errors(context):
        missed = _missed(step)
    left_out = {*(refused.keys if refused else ()), *missed}
    yield from _materialised(context, step, done, left_out)
    with named_failures(name), dagster_errors(context):
        report_checks(context, model, step.model, step.states, step.scopes)
        if refused is not None:
            raise refused
        _refuse_lost(step, missed)


def _begun(
    context: dg.AssetExecutionContext, model: ModelAsset, keys: Mapping[str, dg.AssetKey]
) -> _Step:
    workspace: Workspace = model.names.resources(context).mirrorlake.workspace
    project, catalogue = compile_project(workspace.config, workspace.lake)
    compiled = project.model(model.declaration.name)
    wanted = set(context.partition_keys) if model.partitions else None
    scopes = [s for s in compiled.scopes if wanted is None or model.key_of(s) in wanted]
    absent = sorted((wanted or set[str]()) - {model.key_of(scope) for scope in scopes})
    states = States(project, catalogue, workspace.lake, workspace.ledger)
    return _Step(model, workspace, project, compiled, scopes, states, keys, absent)


def _missed(step: _Step) -> Mapping[str, str]:
    """The partitions of the run that were never computed, and can't be any more: each with why."""
    found = (step.states.of(step.model, scope) for scope in step.scopes)
    return {one.key: one.why for one in found if one.word == "missed"}


def _refuse_lost(step: _Step, missed: Mapping[str, str]) -> None:
    """See that all that was asked for is there: no partition is green for nothing.

    Raises:
        ModelError: some were missed, or are no partitions any more.
    """
    name, retention = step.model.name, step.model.declaration.retention
    if missed:
        key, why = next(iter(missed.items()))
        raise ModelError(
            f"{key} can't be computed any more: {why} ({len(missed):,} of {len(step.scopes):,} "
            "partitions of this run)",
            next_step=f"Leave them out: `mirrorlake show {quote(name)}` says which can be",
        )
    if step.absent:
        kept = f": it keeps partitions for {retention.text}" if retention is not None else ""
        raise ModelError(
            f"{name} has no partition {step.absent[0]} any more{kept} ({len(step.absent):,} of "
            "this run)",
            next_step="Load the location again",
        )


def _look_again(context: dg.AssetExecutionContext, step: _Step) -> None:
    model, states = step.model, step.states
    Checking(step.workspace, model, lambda: states.records(model)).look_again(step.scopes)
    report_checks(context, step.asset, step.model, step.states, step.scopes)


def _materialised(
    context: dg.AssetExecutionContext, step: _Step, done: ModelRun, left_out: set[str]
) -> Events:
    """The partitions of the run that are computed: Dagster goes on only if all of them are."""
    own: dict[str, Mapping[str, Any]] = {}
    for one in done.computed:
        words = "model %s: %s: %d rows (%.1f s)"
        context.log.info(words, done.model, one.key, one.rows, one.seconds)
        own[one.key] = {"dagster/row_count": one.rows, "seconds": one.seconds, **cut_of(one)}
    asset, metadata = step.asset, _metadata(step, done)
    keys = {step.model.key_of(scope): asset.key_of(scope) for scope in step.scopes}
    if left_out or step.absent:
        for key, partition in keys.items() if asset.partitions else ():
            if key not in left_out:
                said = {**metadata, **own.get(key, {})}
                yield dg.AssetMaterialization(asset.key, partition=partition, metadata=said)
        return
    for key, said in own.items() if asset.partitions else ():
        context.add_asset_metadata(said, asset_key=asset.key, partition_key=keys[key])
    yield dg.MaterializeResult(asset_key=asset.key, metadata=metadata)


def _metadata(step: _Step, done: ModelRun) -> dict[str, Any]:
    fields = step.model.fields
    columns = [
        dg.TableColumn(
            f.name, f.value.type, constraints=dg.TableColumnConstraints(nullable=f.value.nullable)
        )
        for f in fields
    ]
    made_of = {
        f.name: ", ".join(
            f"{o.table}.{o.column}" for o in stored_columns(step.project, step.model, f.name)
        )
        for f in fields
    }
    return {
        "partitions computed": len(done.computed),
        "partitions that needed nothing": done.unchanged,
        **({"partitions dropped": done.dropped} if step.model.declaration.retention else {}),
        **_rows(step.model, done),
        **_read_at(done),
        COLUMN_SCHEMA: dg.TableSchema(columns),
        COLUMN_LINEAGE: dg.TableColumnLineage(_lineage(step)),
        "columns are made of": made_of,
    }


def _read_at(done: ModelRun) -> dict[str, Any]:
    """At which cut a run read mirrored tables, or why each at main."""
    return {**cut_of(done), **({"read at main": done.why_main} if done.why_main else {})}


def _rows(model: Model, done: ModelRun) -> dict[str, int]:
    """How many rows were computed; a view has none of its own."""
    if model.declaration.is_view:
        return {}
    return {"rows computed": sum(one.rows for one in done.computed)}


def _lineage(step: _Step) -> dict[str, list[dg.TableColumnDep]]:
    """Column → the columns of the assets above that its values are made of. Those have their own,
    down to MySQL's."""
    tables = {o.table for f in step.model.fields for o in f.value.origins}
    names = {table: _names(step, table) for table in tables & step.keys.keys()}
    return {
        field.name: [
            dg.TableColumnDep(step.keys[one.table], names[one.table].get(one.column, one.column))
            for one in sorted(field.value.origins, key=lambda o: (o.table, o.column))
            if one.table in names
        ]
        for field in step.model.fields
        if field.value.origins
    }


def _names(step: _Step, table: str) -> Mapping[str, str]:
    """The columns of a table that a model reads: in lower case → as they are written."""
    project = step.project
    if table in project.models:
        fields = project.models[table].fields
    elif table in project.externals:
        fields = project.externals[table].relation.fields
    else:
        found = step.states.catalogue.table(table)
        return {name.lower(): name for name, *_ in found.columns} if found is not None else {}
    return {one.name.lower(): one.name for one in fields}
