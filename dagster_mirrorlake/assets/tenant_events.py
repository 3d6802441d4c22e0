"""A table of tenants as readers are shown it, in Dagster's words: reported by the run that made it
so, or by the sensor on the ledger.
"""

from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.reported import through_tags
from dagster_mirrorlake.assets.tenant_figures import (
    layer_columns_of,
    states_metadata,
    versions_metadata,
)
from dagster_mirrorlake.table import LAYERS
from dagster_mirrorlake.tenants import MirroredTenants

if TYPE_CHECKING:
    from mirrorlake.operations.tenants.reports import TenantsShown
    from mirrorlake.workspace import Workspace

_STATE_TAG = "mirrorlake/shown"
"""The tag that distinguishes events that report different states of the layers."""
_NEWEST = 20
_LISTED = 10


def shown_tags(shown: "TenantsShown | None") -> dict[str, str]:
    """The tags of events that reflect this."""
    return {} if shown is None else {**through_tags(shown.through), _STATE_TAG: shown.state}


def is_shown_reported(
    instance: dg.DagsterInstance, tenants: MirroredTenants, shown: "TenantsShown"
) -> bool:
    """Whether every layer has an event of this state among its newest."""
    wanted = shown_tags(shown).items()
    for layer in LAYERS:
        found = instance.fetch_materializations(tenants.key(layer), limit=_NEWEST).records
        events = [record.asset_materialization for record in found]
        if not any(event and wanted <= (event.tags or {}).items() for event in events):
            return False
    return True


def shown_events(
    workspace: "Workspace", tenants: MirroredTenants, shown: "TenantsShown", after: int
) -> list[dg.AssetMaterialization]:
    """A materialisation of each layer as it is now.

    Args:
        after: the number of the newest load that was reported before.
    """
    from mirrorlake.table.lake_tables import deduped_of

    ledger, table = workspace.ledger, tenants.contract
    rows = workspace.lake.count_rows(deduped_of(table)) or 0
    states = states_metadata(ledger, table)
    raw: dict[str, Any] = {"tenants": sum(states.values()), **versions_metadata(ledger, table)}
    loads = [load.load_id for load in ledger.successful_loads(table.name, after, ever=True)]
    if loads:
        more = f" and {len(loads) - _LISTED} more" if len(loads) > _LISTED else ""
        raw["loads"] = ", ".join(loads[-_LISTED:]) + more
    counted = {"dagster/row_count": rows}
    metadata = {
        "raw": raw,
        "deduped": {**states, **counted, **layer_columns_of(workspace, tenants, "deduped")},
        "clean": {
            "clean is a": table.clean,
            **counted,
            **layer_columns_of(workspace, tenants, "clean"),
        },
    }
    return [
        dg.AssetMaterialization(
            tenants.key(layer), metadata=metadata[layer], tags=shown_tags(shown)
        )
        for layer in LAYERS
    ]
