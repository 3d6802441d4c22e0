"""Which days were materialised since a verdict on them."""

from collections.abc import Iterator
from datetime import date

import dagster as dg

_PAGE = 1000


def materialized_since(
    instance: dg.DagsterInstance, key: dg.AssetKey, event: int
) -> tuple[set[date] | None, int]:
    """The days that were materialised after an event (its number in Dagster's log), and the number
    of the newest one. None for all days: the log is another one.
    """
    found = instance.fetch_materializations(key, limit=1).records
    newest = found[0].storage_id if found else 0
    if newest < event:
        return None, newest
    return set(_days_after(instance, key, event)), newest


def _days_after(instance: dg.DagsterInstance, key: dg.AssetKey, event: int) -> Iterator[date]:
    cursor: str | None = None
    while True:
        chosen = dg.AssetRecordsFilter(asset_key=key, after_storage_id=event)
        page = instance.fetch_materializations(chosen, limit=_PAGE, cursor=cursor)
        for record in page.records:
            if record.partition_key is not None:
                yield date.fromisoformat(record.partition_key)
        if not page.has_more:
            return
        cursor = page.cursor
