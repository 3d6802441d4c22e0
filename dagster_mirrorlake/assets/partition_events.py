"""The partitions that a step reports: those that are in the lake, each with its own rows.

What belongs here: which partitions a step's loads and folds touched, and their events. What
doesn't: the step's own work (`dagster_mirrorlake.assets.steps`), and what nobody's step reported
(`dagster_mirrorlake.sensors.partitions`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.days import today
from dagster_mirrorlake.assets.keys import LOAD_TAG
from dagster_mirrorlake.assets.reported import partition_event, partition_metadata, through_tags
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.translator import Layer
from mirrorlake.config import TableContract
from mirrorlake.ledger import Load
from mirrorlake.operations.days.partitions import (
    RawLooked,
    folded_days,
    folded_partitions,
    held_partitions,
    look_at_raw,
)
from mirrorlake.operations.days.touched_days import touched_days
from mirrorlake.workspace import Workspace

Events = Iterator[dg.MaterializeResult[Any] | dg.AssetMaterialization | dg.AssetObservation]

MOST_OTHERS = 50
"""Partitions beside the run's own that a step reports; of more, the sensor ``partitions`` does."""
_OF_THE_TABLE = ("dagster/row_count", "dagster/column_schema", "dagster/column_lineage")
"""Metadata that is as true of the table whatever partition it stands at."""


def touched_partitions(
    workspace: Workspace, contract: TableContract, chosen: set[str], raw: RawLooked
) -> set[date]:
    """The partitions, by their beginning, that these loads (ids) of a step touched."""
    after = workspace.ledger.successful_loads(contract.name)[-len(chosen) - 8 :]
    loads = [load for load in after if load.load_id in chosen]
    return _touched(workspace, contract, loads, raw)


def _touched(
    workspace: Workspace, contract: TableContract, loads: Sequence[Load], raw: RawLooked
) -> set[date]:
    by_seq = {load.seq: load for load in loads}
    touched = touched_days(workspace.ledger, contract, by_seq, raw.files)
    return {p for one in touched.values() for p in one.partitions(contract, raw.held.rows)}


def run_partitions(
    context: dg.AssetExecutionContext,
    mirrored: MirroredTable,
    layer: Layer,
    wanted: Sequence[str],
    rows: Mapping[str, int],
    metadata: Mapping[str, Any],
    through: int,
) -> Events:
    """A materialisation of each of the run's partitions, with its own rows.

    What the step did is metadata of a partition only where it is the run's only one; else it is an
    observation of the asset. Dagster continues with the step's result: where a partition of
    the run is not in the lake, there is none, and nothing to continue with.
    """
    several = len(context.partition_keys) > 1
    if several:
        yield dg.AssetObservation(mirrored.key(layer), metadata=metadata)
    own = {key: partition_metadata(layer, rows[key]) for key in wanted}
    shown = {k: v for k, v in metadata.items() if k in _OF_THE_TABLE} if several else metadata
    if len(wanted) < len(context.partition_keys):
        for key in wanted:
            yield partition_event(mirrored, layer, key, {**shown, **own[key]}, through)
        return
    for key in wanted:
        context.add_asset_metadata(own[key], partition_key=key)
    yield dg.MaterializeResult(metadata=shown, tags=through_tags(through))


class KeyedRows(Mapping[str, int]):
    """Row versions by partition key; each is looked up when it is wanted, for an hour's are read.

    Args:
        beginnings: key → the beginning of its partition.
        rows: row versions by beginning.
    """

    def __init__(self, beginnings: Mapping[str, date], rows: Mapping[date, int]) -> None:
        self._beginnings, self._rows = beginnings, rows

    def __getitem__(self, key: str) -> int:
        return self._rows[self._beginnings[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._beginnings)

    def __len__(self) -> int:
        return len(self._beginnings)


@dataclass(frozen=True)
class Folded:
    """What a layer holds: by partition the row versions that were folded; and what raw has."""

    folded: Mapping[str, int]
    in_raw: set[str]
    through: int


def find_folded(workspace: Workspace, mirrored: MirroredTable, layer: Layer) -> Folded:
    contract, open_day = mirrored.contract, today()
    lake, ledger = workspace.lake, workspace.ledger
    raw = look_at_raw(lake, ledger, contract, open_day)
    rows = held_partitions(contract, raw, open_day)
    folded = folded_days(lake, ledger, contract, layer, raw.held)
    there = folded_partitions(contract, raw, folded, open_day)
    return Folded(
        KeyedRows(mirrored.by_key(there), rows),
        set(mirrored.by_key(rows)),
        raw.held.through,
    )


def partitions_of(workspace: Workspace, mirrored: MirroredTable, loads: Sequence[Load]) -> set[str]:
    """The partitions that these loads touched."""
    if not loads:
        return set()
    raw = look_at_raw(workspace.lake, workspace.ledger, mirrored.contract, today())
    touched = _touched(workspace, mirrored.contract, loads, raw)
    return set(mirrored.by_key(touched))


def other_partitions(
    context: dg.AssetExecutionContext,
    mirrored: MirroredTable,
    layer: Layer,
    there: Folded,
    touched: Iterable[str],
) -> Events:
    """The partitions beside the run's own that the step changed. They are reported before the
    checks look: what is reported after a check makes Dagster call it not evaluated."""
    others = there.folded.keys() & set(touched) - set(context.partition_keys)
    for key in sorted(others) if len(others) <= MOST_OTHERS else ():
        metadata = partition_metadata(layer, there.folded[key])
        yield partition_event(mirrored, layer, key, metadata, there.through)


def folded_layer(
    context: dg.AssetExecutionContext,
    mirrored: MirroredTable,
    layer: Layer,
    there: Folded,
    metadata: Mapping[str, Any],
) -> Events:
    """The run's partitions that a folded layer holds; then a failure that names the others."""
    load = context.run.tags.get(LOAD_TAG)
    wanted = [key for key in context.partition_keys if key in there.folded]
    yield from run_partitions(
        context, mirrored, layer, wanted, there.folded, metadata, there.through
    )
    absent = [key for key in context.partition_keys if key not in there.folded]
    if absent and not load:
        why = (
            "raw has nothing of it: materialise raw first"
            if absent[0] not in there.in_raw
            else f"loads that touched it are not in {layer} yet: materialise deduped first"
        )
        more = f" and {len(absent) - 1} more partitions" if len(absent) > 1 else ""
        raise dg.Failure(
            f"table {mirrored.contract.name}: partition {absent[0]}{more}: {why}",
            allow_retries=False,
        )
