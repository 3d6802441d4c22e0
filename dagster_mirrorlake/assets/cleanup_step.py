"""What a source's cleanup does: the engine's recovery, table by table."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.keys import cleanup_key
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.errors import LeaseHeld, MirrorlakeError
from mirrorlake.operations.repairing.recover import Recovered, recover_table
from mirrorlake.operations.upkeep.orphans import GRACE
from mirrorlake.runtime.plural import plural
from mirrorlake.workspace import Workspace

Events = Iterator[dg.MaterializeResult[Any] | dg.AssetMaterialization]


def clean_up(
    context: dg.AssetExecutionContext, source: str, tables: Sequence[MirroredTable]
) -> Events:
    """Recover these tables of a source.

    A table that a run holds is left for the next time. One that can't be read is named, and fails
    the step after all others were done.
    """
    names = tables[0].names
    workspace: Workspace = names.resources(context).mirrorlake.workspace
    done: list[Recovered] = []
    held: list[str] = []
    failed: dict[str, MirrorlakeError] = {}
    for contract in (table.contract for table in tables):
        try:
            done.append(recover_table(workspace, contract, GRACE, wait=False))
        except LeaseHeld:
            held.append(contract.name)
        except MirrorlakeError as error:
            context.log.warning("table %s: %s", contract.name, error)
            failed[contract.name] = error
    metadata: dict[str, Any] = {
        "tables": len(done),
        "loads found committed": sum(r.committed for r in done),
        "loads marked errored": sum(r.errored for r in done),
        "orphans removed": sum(r.orphans for r in done),
        "bytes freed": sum(r.bytes for r in done),
        **({"left to runs": ", ".join(held)} if held else {}),
        **({"could not be read": ", ".join(failed)} if failed else {}),
    }
    if failed:
        # Only what is yielded outlives a failure.
        yield dg.AssetMaterialization(cleanup_key(source, names), metadata=metadata)
        name, error = next(iter(failed.items()))
        raise dg.Failure(
            f"{plural(len(failed), 'table')} could not be read; {name}: {error}", metadata
        )
    yield dg.MaterializeResult(metadata=metadata)
