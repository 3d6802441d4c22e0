"""Reports to Dagster what readers see of tables of tenants, from the command line or a run."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from dagster_mirrorlake.assets.tenant_events import is_shown_reported, shown_events
from dagster_mirrorlake.sensors.forgotten import assets_without_record
from dagster_mirrorlake.table import LAYERS
from dagster_mirrorlake.tenants import MirroredTenants

if TYPE_CHECKING:
    from mirrorlake.workspace import Workspace


def find_shown(
    instance: dg.DagsterInstance,
    workspace: "Workspace",
    tables: Sequence[MirroredTenants],
    before: Mapping[str, str],
    is_busy: Callable[[str], bool],
) -> tuple[list[dg.AssetMaterialization], dict[str, str]]:
    """A materialisation of each layer of the tables whose newest sync no run reported, and of each
    that Dagster has none of any more; and what was looked at, by table.

    A run that is under way reports what it did itself: its table is left until it has ended.

    Args:
        before: what was looked at before.
    """
    from mirrorlake.operations.tenants.reports import read_shown

    events: list[dg.AssetMaterialization] = []
    looked: dict[str, str] = {}
    for tenants in tables:
        name = tenants.contract.name
        shown, seen = read_shown(workspace.ledger, name), before.get(name)
        through, _, state = (seen or "0.").partition(".")
        same = shown is not None and (int(through), state) == (shown.through, shown.state)
        wiped = assets_without_record(instance, [tenants.key(layer) for layer in LAYERS])
        if shown is None or (same and not wiped) or is_busy(shown.run_id):
            looked |= {name: seen} if seen else {}
            continue
        if same or not is_shown_reported(instance, tenants, shown):
            found = shown_events(workspace, tenants, shown, after=0 if same else int(through))
            events += [one for one in found if not same or one.asset_key in wiped]
        looked[name] = f"{shown.through}.{shown.state}"
    return events, looked
