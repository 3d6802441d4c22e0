"""What loads and checks of tables took of BigQuery, from the statistics of their jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mirrorlake.bigquery.ledger import JobCostRecord, JobCosts
from mirrorlake.ledger import Ledger


@dataclass(frozen=True)
class CostSum:
    """The jobs of one purpose, and what they took as far as it is known.

    Attributes:
        jobs: how many of each type: ``load``, ``copy``, ``query``.
        bytes_processed, bytes_billed, slot_ms: of the jobs that say it; None where none does.
        unknown: queries that do not say what they were billed. Loads and copies are not billed by
            bytes.
    """

    jobs: Mapping[str, int]
    bytes_processed: int | None
    bytes_billed: int | None
    slot_ms: int | None
    unknown: int


@dataclass(frozen=True)
class TableCosts:
    """What a table's loads and its checks took."""

    table: str
    publish: CostSum
    check: CostSum


def costs_of(ledger: Ledger, tables: Sequence[str], since: datetime) -> list[TableCosts]:
    """What the jobs of some tables took that ended at or after a moment (UTC)."""
    by_table: dict[str, list[JobCostRecord]] = {name: [] for name in tables}
    for record in JobCosts(ledger).since(since, tables):
        by_table[record.table].append(record)
    return [
        TableCosts(
            name,
            sum_costs(one for one in records if one.purpose == "publish"),
            sum_costs(one for one in records if one.purpose == "check"),
        )
        for name, records in by_table.items()
    ]


def sum_costs(records: Iterable[JobCostRecord]) -> CostSum:
    """What jobs took together."""
    found = list(records)
    return CostSum(
        jobs=dict(sorted(Counter(one.job_type for one in found).items())),
        bytes_processed=_known(one.bytes_processed for one in found),
        bytes_billed=_known(one.bytes_billed for one in found),
        slot_ms=_known(one.slot_ms for one in found),
        unknown=sum(one.job_type == "query" and one.bytes_billed is None for one in found),
    )


def _known(values: Iterable[int | None]) -> int | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None
