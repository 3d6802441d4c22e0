"""The maintenance of the lake: an asset whose materialisation is what became smaller."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.keys import GROUP, maintenance_key
from dagster_mirrorlake.names import Names, step_of
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.tenants import MirroredTenants
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.operations.upkeep.maintain import Maintained
    from mirrorlake.workspace import Workspace


def build_maintenance(
    tables: Sequence[MirroredTable], tenants: Sequence[MirroredTenants] = ()
) -> dg.AssetsDefinition:
    """Compacts, expires and cleans up the lake tables of these, one after the other."""
    names = (*tables, *tenants)[0].names
    key = maintenance_key(names)
    step = dg.OpDefinition(
        compute_fn=_step(tables, tenants, names),
        name=step_of(key),
        outs={"result": dg.Out(dg.Nothing)},
        required_resource_keys=names.all_of({"mirrorlake"}),
    )
    spec = dg.AssetSpec(
        key,
        description="Small files taken together, deleted rows out of their files, old versions "
        "expired, orphans removed. Queries no source.",
        group_name=GROUP,
        kinds={"iceberg", "spark"},
    )
    return dg.AssetsDefinition(
        node_def=step, specs=[spec], keys_by_input_name={}, keys_by_output_name={"result": key}
    )


def _step(tables: Sequence[MirroredTable], tenants: Sequence[MirroredTenants], names: Names) -> Any:
    def step(context: dg.AssetExecutionContext, _: Any) -> Iterator[Any]:
        yield from _maintain(context, tables, tenants, names)

    return step


def _maintain(
    context: dg.AssetExecutionContext,
    tables: Sequence[MirroredTable],
    tenants: Sequence[MirroredTenants],
    names: Names,
) -> Iterator[Any]:
    """A table that a run holds is left for the next time; one that fails is named, and fails the
    step after all others were done."""
    from dagster_mirrorlake.resources.failures import dagster_errors
    from mirrorlake.errors import LeaseHeld, MirrorlakeError
    from mirrorlake.operations.upkeep.maintain import maintain_table

    with dagster_errors(context):
        workspace: Workspace = names.resources(context).mirrorlake.workspace
    done: list[Maintained] = []
    held: list[str] = []
    failed: dict[str, str] = {}
    for one in (*tables, *tenants):
        contract = one.contract
        name = contract.name
        try:
            found = maintain_table(workspace, contract, wait=False)
        except LeaseHeld:
            held.append(name)
        except MirrorlakeError as error:
            failed[name] = str(error)
        else:
            done += found
            failed |= {part.table: part.error for part in found if part.error}
    for found in _maintained_besides(workspace, held, failed):
        done += found
        failed |= {part.table: part.error for part in found if part.error}
    for name, words in failed.items():
        context.log.warning("table %s: %s", name, words)
    metadata: dict[str, Any] = {
        **_totals(done),
        "tables": _listed(done),
        **({"left to runs": ", ".join(held)} if held else {}),
        **({"failed": ", ".join(failed)} if failed else {}),
    }
    if failed:
        # Only what is yielded outlives a failure.
        yield dg.AssetMaterialization(maintenance_key(names), metadata=metadata)
        name, words = next(iter(failed.items()))
        raise dg.Failure(
            f"{plural(len(failed), 'table was', 'tables were')} not maintained; {name}: {words}",
            metadata,
        )
    yield dg.MaterializeResult(metadata=metadata)


def _maintained_besides(
    workspace: "Workspace", held: list[str], failed: dict[str, str]
) -> "Iterator[list[Maintained]]":
    """What is computed from tables: what a run holds is left for the next time, too."""
    from mirrorlake.errors import LeaseHeld, MirrorlakeError
    from mirrorlake.operations.planning.computed import COMPUTED

    for name, step in (one for kind in COMPUTED for one in kind.maintenance(workspace, ())):
        try:
            yield step()
        except LeaseHeld:
            held.append(name)
        except MirrorlakeError as error:
            failed[name] = str(error)


_SIZES = {
    "data files": "data_files",
    "delete files": "delete_files",
    "bytes": "bytes",
    "versions": "versions",
}


def _totals(done: "list[Maintained]") -> dict[str, Any]:
    """Numbers that are plotted over time."""
    done = [one for one in done if one.layer != "landing"]
    found: dict[str, Any] = {"lake tables": len(done)}
    for words, name in _SIZES.items():
        found[f"{words} before"] = sum(getattr(one.before, name) for one in done)
        found[f"{words} after"] = sum(getattr(one.after, name) for one in done)
    found["orphans removed"] = sum(one.orphans for one in done)
    found["bytes of orphans"] = sum(one.orphan_bytes for one in done)
    return found


def _listed(done: "list[Maintained]") -> dg.MetadataValue[Any]:
    """Each lake table's sizes, before and after."""
    lines = [f"| table | layer | {' | '.join(_SIZES)} | orphans |", "|" + "---|" * 7]
    for one in done:
        sizes = [
            f"{getattr(one.before, name):,} → {getattr(one.after, name):,}"
            for name in _SIZES.values()
        ]
        lines.append(f"| {one.table} | {one.layer} | {' | '.join(sizes)} | {one.orphans} |")
    return dg.MetadataValue.md("\n".join(lines))
