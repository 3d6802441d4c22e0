"""What a step did, as metadata: figures that Dagster plots over time, and words.

What belongs here: the engine's results under the names that the UI shows. What doesn't: partitions
(`dagster_mirrorlake.assets.partition_events`), columns (`dagster_mirrorlake.assets.columns`).
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import dagster as dg

from dagster_mirrorlake.assets.columns import layer_columns, types_metadata
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.spark.cost import scanned
from mirrorlake.ledger import Cost
from mirrorlake.operations.loading.results import SyncResult, speed
from mirrorlake.operations.schema_changes.table_shapes import shapes_of
from mirrorlake.runtime.plural import plural
from mirrorlake.workspace import Workspace


def raw_metadata(
    workspace: Workspace, mirrored: MirroredTable, done: Sequence[SyncResult], since: datetime
) -> dict[str, Any]:
    """What was loaded since, what that cost, and raw's columns."""
    costs = workspace.ledger.costs(mirrored.contract.name, since)
    return {
        **_load_metadata(done),
        **lake_cost(costs, sum(r.bytes for r in done)),
        **layer_columns(workspace.lake, workspace.ledger, mirrored, "raw"),
        **_shapes(workspace, mirrored.contract),
    }


def _shapes(workspace: Workspace, contract: TableContract) -> dict[str, Any]:
    """The schema version that was loaded; of a table that had several, all of them."""
    versions = workspace.ledger.schema_versions(contract.name)
    if not versions:
        return {}
    found: dict[str, Any] = {"schema version": versions[-1].raw_table}
    if len(versions) > 1:
        shapes = shapes_of(workspace, contract)
        records = [
            dg.TableRecord(
                {
                    "no.": shape.number,
                    "version": shape.raw_table,
                    "first seen (UTC)": f"{shape.first_seen:%Y-%m-%d %H:%M:%S}",
                    "loads": shape.loads,
                    "changes": "; ".join(shape.changes) or "-",
                }
            )
            for shape in shapes.versions
        ]
        found["schema versions"] = dg.MetadataValue.table(records)
        found |= types_metadata(shapes.columns)
    return found


def _load_metadata(done: Sequence[SyncResult]) -> dict[str, Any]:
    """What the loads of one step come to; numbers are plotted over time."""
    if not done:
        return {"rows": 0, "bytes": 0, "seconds": 0.0}
    return {
        "load id": ", ".join(r.load_id for r in done),
        "window": ", ".join(r.window for r in done),
        "rows": sum(r.rows for r in done),
        "bytes": sum(r.bytes for r in done),
        "MB read": round(sum(r.read_bytes for r in done) / 1e6, 3),
        "MB/s": speed(sum(r.read_bytes for r in done), sum(r.read_seconds for r in done)),
        "files": sum(r.files for r in done),
        "seconds": round(sum(r.seconds for r in done), 2),
        "longest query (s)": max(r.longest_query for r in done),
        "originals kept": sum(r.originals for r in done),
        "originals by column": _by_column(done),
        "moments": "; ".join(_moments(r) for r in done),
        "rows dated in the future": sum(r.future for r in done),
        "rows whose time went back": sum(r.backward for r in done),
        "keys looked up": sum(r.looked_up for r in done),
        "keys gone": sum(r.gone for r in done),
        "loads of dead runs settled": sum(r.settled for r in done),
        **put_right_metadata(done),
        **_texts("table changed", [r.changed for r in done]),
        **_texts("windows held back", [r.held_back for r in done]),
    }


class _PutRight(Protocol):
    """What a sync did."""

    @property
    def put_right(self) -> tuple[str, ...]: ...


def put_right_metadata(done: Sequence[_PutRight]) -> dict[str, str]:
    """What other hands had done to the table's lake tables, and what was done about it."""
    return _texts("lake tables put right", [one for result in done for one in result.put_right])


def _texts(name: str, words: Sequence[str]) -> dict[str, str]:
    """Each text once, as one entry; none where there is none."""
    text = "; ".join(dict.fromkeys(filter(None, words)))
    return {name: text} if text else {}


def lake_cost(costs: Sequence[Cost], loaded: int = 0) -> dict[str, Any]:
    """What a step read of the lake and wrote to it (``loaded``: by loads); what other processes
    read for Spark is left out."""
    read, written = scanned(costs), loaded + sum(c.written for c in costs)
    reads = {} if read is None else {"lake MB scanned": round(read / 1e6, 3)}
    return {"lake MB written": round(written / 1e6, 3), **reads}


def _by_column(done: Sequence[SyncResult]) -> str:
    found: Counter[str] = Counter()
    for result in done:
        found.update(result.original_columns)
    return ", ".join(f"{name}: {count}" for name, count in sorted(found.items())) or "none"


def _moments(result: SyncResult) -> str:
    """What of MySQL the load shows: one moment, or as many as it has chunks."""
    if result.chunks == 1:
        return f"{result.moment} UTC"
    return f"{plural(result.chunks, 'chunk')}, from {result.moment} to {result.until} UTC"


def row_count(count: int | None) -> dict[str, Any]:
    return {} if count is None else {"dagster/row_count": count}


def rules_of(contract: TableContract) -> str:
    rules = [f"{c}: {rule}" for c, rule in sorted(contract.rules.items())]
    rules += [f"{c}: never read" for c in sorted(contract.excluded)]
    return ", ".join(rules) or "none"
