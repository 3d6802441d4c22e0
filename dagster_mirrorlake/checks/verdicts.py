"""A check's verdict, what it looked at, and how it is reported to Dagster.

A check of rows remembers in the ledger which snapshot it last found good: then only rows of newer
files are read. Executed alone, by a person, it looks at all of them again.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.targets import target_of
from dagster_mirrorlake.checks.as_of import AsOf
from dagster_mirrorlake.checks.days import Partition
from dagster_mirrorlake.checks.repair_links import repair_links
from dagster_mirrorlake.checks.series import BY_DAY
from dagster_mirrorlake.table import Layer, MirroredTable
from mirrorlake.config import TableContract
from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.operations.other_writers.moved_lake import find_all_moved
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class CheckVerdict:
    """What one check found; ``words`` say what is wrong, without any row's values. ``partitions``:
    of the days that are reported one by one; ``as_of``: the state that all of it is about."""

    passed: bool
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    words: str | None = None
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    partitions: Mapping[str, Partition] = field(default_factory=dict[str, Partition])
    as_of: AsOf | None = None

    @property
    def state(self) -> Mapping[str, Any]:
        """The metadata that say what state this is about."""
        return self.as_of.metadata if self.as_of is not None else {}


OTHER_HANDS = "what other hands did"
"""The name of this among a verdict's metadata."""


def moved_metadata(workspace: Workspace, contract: Mirrored) -> dict[str, str]:
    """What other hands did to a table's lake tables, and nobody has put right yet: whose work a
    difference is.

    Raises:
        LakeError, LedgerError: the lake or the ledger can't be read.
    """
    moved = find_all_moved(workspace.config, workspace.ledger, [contract]).get(contract.name)
    return {OTHER_HANDS: "; ".join(one.said for one in moved)} if moved else {}


@dataclass(frozen=True)
class Look:
    """One look at one layer of a table; ``whole``: at rows that were found good before, too;
    ``days``: the first and last that the run is about, None where it names none; ``by_day``:
    whether the check of each of these days was requested with it; ``instance``: Dagster's."""

    workspace: Workspace
    table: MirroredTable
    layer: Layer
    whole: bool
    days: tuple[date, date] | None = None
    by_day: bool = False
    instance: dg.DagsterInstance | None = None

    @property
    def requested_days(self) -> list[date]:
        """The days of which a verdict was requested, in order."""
        if not self.by_day or self.days is None:
            return []
        first, last = self.days
        return [first + timedelta(days=n) for n in range((last - first).days + 1)]

    @property
    def contract(self) -> TableContract:
        """The table's."""
        return self.table.contract

    def good_snapshot(self, name: str, terms: str) -> int | None:
        """The snapshot that a check last found good on the same terms."""
        said = None if self.whole else self.workspace.ledger.definition(self._name(name))
        good = json.loads(said) if said else {}
        return good["snapshot"] if good.get("terms") == terms else None

    def found_good(self, name: str, terms: str, table: LakeTable) -> None:
        """Remember that this check found the table good as it was loaded."""
        snapshot = snapshot_of(table)
        if snapshot is not None:
            text = json.dumps({"snapshot": snapshot, "terms": terms})
            self.workspace.ledger.record_definition(self._name(name), text)

    def _name(self, name: str) -> str:
        layer = deduped_of if self.layer == "deduped" else clean_of
        return f"good {name} {layer(self.contract)}"


def evaluations(
    context: dg.OpExecutionContext,
    table: MirroredTable,
    layer: Layer,
    name: str,
    verdict: CheckVerdict,
) -> Iterator[dg.AssetCheckEvaluation]:
    """A verdict and its days as events of a step that is no check's. To be yielded: what is only
    logged is lost where the step fails."""
    key = table.key(layer)
    yield from day_events(context, table, key, name, verdict)
    words, shown = shown_of(context.run, table, name, verdict)
    yield dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=name,
        passed=verdict.passed,
        severity=verdict.severity,
        metadata={k: as_value(v) for k, v in {**shown, **verdict.state}.items()},
        description=words,
    )


_VALUES: dict[type, Any] = {
    bool: dg.MetadataValue.bool,
    int: dg.MetadataValue.int,
    float: dg.MetadataValue.float,
    str: dg.MetadataValue.text,
}


def as_value(value: Any) -> dg.MetadataValue[Any]:
    """A plain value as Dagster's metadata."""
    if isinstance(value, dg.MetadataValue):
        return value
    make = _VALUES.get(type(value))
    return dg.MetadataValue.text(str(value)) if make is None else make(value)


def shown_of(
    run: dg.DagsterRun, table: MirroredTable, name: str, verdict: CheckVerdict | Partition
) -> tuple[str | None, dict[str, Any]]:
    """The words and the metadata that a verdict is shown with: of a failed one first what a person
    can do about it."""
    links = None if verdict.passed else repair_links(run, table, name, verdict.words)
    if links is None:
        return verdict.words, dict(verdict.metadata)
    return links.words_of(verdict.words), {**links.metadata, **verdict.metadata}


def day_events(
    context: dg.OpExecutionContext,
    table: MirroredTable,
    key: dg.AssetKey,
    name: str,
    verdict: CheckVerdict,
) -> Iterator[dg.AssetCheckEvaluation]:
    """An evaluation of each day, in a series of its own; a failed one also links to its repair."""
    for day, one in verdict.partitions.items() if table.has_days else ():
        words, shown = shown_of(context.run, table, name, one)
        yield dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=f"{name}{BY_DAY}",
            passed=one.passed,
            metadata={k: as_value(v) for k, v in {**shown, **verdict.state}.items()},
            description=words,
            severity=one.severity,
            partition=day,
            target_materialization_data=target_of(context.instance, key, day),
        )


def snapshot_of(table: LakeTable) -> int | None:
    """The id of a table's current snapshot."""
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot else None
