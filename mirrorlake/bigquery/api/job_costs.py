"""What a job took of BigQuery, as Google's statistics of jobs say it.

Source: BigQuery REST, "Job: JobStatistics, JobStatistics2".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class JobCost:
    """What one job took; None where nobody says it, which is not 0.

    Attributes:
        job_type: ``load``, ``copy`` or ``query``: only queries are billed by bytes.
        bytes_processed, bytes_billed: of a query.
        slot_ms: milliseconds of slots, of all workers together.
    """

    job: str
    job_type: str
    bytes_processed: int | None = None
    bytes_billed: int | None = None
    slot_ms: int | None = None


def cost_from(
    job: str, job_type: str, statistics: Mapping[str, object], *, emulated: bool
) -> JobCost:
    """What a job took, from its statistics as the API writes them: numbers as texts.

    >>> cost_from("j", "query", {"totalSlotMs": "12"}, emulated=False).slot_ms
    12

    Args:
        emulated: whether an emulator answers: its zeros are no measurement.
    """
    query = statistics.get("query")
    of_query: Mapping[object, object] = query if isinstance(query, Mapping) else {}
    found = (
        statistics.get("totalBytesProcessed", of_query.get("totalBytesProcessed")),
        of_query.get("totalBytesBilled"),
        statistics.get("totalSlotMs", of_query.get("totalSlotMs")),
    )
    numbers = [_number(value, emulated=emulated) for value in found]
    return JobCost(job, job_type, *numbers)


def _number(value: object, *, emulated: bool) -> int | None:
    if not isinstance(value, (str, int)):
        return None
    return None if emulated and int(value) == 0 else int(value)
