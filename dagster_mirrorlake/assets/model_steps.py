"""What the step of a SQL model does: it computes partitions, each in a commit of its own."""

from typing import Any

import dagster as dg

from dagster_mirrorlake.models import ModelAsset
from dagster_mirrorlake.resources.failures import dagster_errors, named_failures
from mirrorlake.models.project import stored_columns
from mirrorlake.operations.models.compiled import compile_project
from mirrorlake.operations.models.runs import run_model
from mirrorlake.operations.models.states import States
from mirrorlake.workspace import Workspace


def run(
    context: dg.AssetExecutionContext, model: ModelAsset, *, again: bool
) -> dg.MaterializeResult[Any]:
    """Compute the partitions of a run that are missing or stale; all of them are computed then.

    Raises:
        Failure: the model does not compile, a partition that it reads is not computed, or the
            engine failed.
    """
    name = model.declaration.name
    with named_failures(name), dagster_errors(context.retry_number):
        workspace: Workspace = model.names.resources(context).mirrorlake.workspace
        project, catalogue = compile_project(workspace.config, workspace.lake)
        compiled = project.model(name)
        wanted = set(context.partition_keys) if model.partitions else None
        scopes = [s for s in compiled.scopes if wanted is None or model.key_of(s) in wanted]
        states = States(project, catalogue, workspace.lake, workspace.ledger)
        done = run_model(workspace, states, compiled, scopes, again=again)
    for one in done.computed:
        context.log.info("model %s: %s: %d rows (%.1f s)", name, one.key, one.rows, one.seconds)
        if wanted is not None:
            context.add_asset_metadata(
                {"dagster/row_count": one.rows, "seconds": one.seconds},
                asset_key=model.key,
                partition_key=model.key_of(compiled.by_key[one.key]),
            )
    columns = [
        dg.TableColumn(
            f.name, f.value.type, constraints=dg.TableColumnConstraints(nullable=f.value.nullable)
        )
        for f in compiled.fields
    ]
    made_of = {
        f.name: ", ".join(
            f"{o.table}.{o.column}" for o in stored_columns(project, compiled, f.name)
        )
        for f in compiled.fields
    }
    return dg.MaterializeResult(
        asset_key=model.key,
        metadata={
            "partitions computed": len(done.computed),
            "partitions that needed nothing": done.left,
            "rows computed": sum(one.rows for one in done.computed),
            "dagster/column_schema": dg.TableSchema(columns),
            "columns are made of": made_of,
        },
    )
