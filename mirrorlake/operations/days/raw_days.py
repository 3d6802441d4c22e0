"""Raw's rows by day and hour, from the metadata of its files; and when a load read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, time

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.statistics import files_by_day
from mirrorlake.destinations.iceberg.reading.hours import rows_by_hour
from mirrorlake.ledger import Ledger, Load
from mirrorlake.schema.own_columns import COMMITTED_AT
from mirrorlake.table.lake_tables import raw_tables


class RawFiles:
    """A table's raw files by their metadata, of all schema versions; read once, when needed."""

    def __init__(self, lake: Lake, ledger: Ledger, contract: TableContract) -> None:
        self._parts = (lake, ledger, contract)
        self._rows: dict[date, int] | None = None
        self._loads: dict[str, set[date]] = {}
        self._hours: dict[date, Mapping[datetime, int]] = {}

    @property
    def rows(self) -> Mapping[date, int]:
        """Row versions per raw day."""
        if self._rows is None:
            self._rows = self._read()
        return self._rows

    def days_of_load(self, load_id: str) -> set[date]:
        """The days of the files that a load wrote and that are there still, by their names."""
        return self._loads.get(load_id, set()) if self.rows else set()

    def hours_of(self, day: date) -> Mapping[datetime, int]:
        """Row versions of a raw day per hour; hours without any are absent. They are read once.

        Raises:
            LakeError: raw can't be read.
        """
        if day not in self._hours:
            lake, ledger, contract = self._parts
            of_rows = (COMMITTED_AT,) if contract.by_log else (contract.cursor, contract.created)
            names = [name for name in of_rows if name]
            counted: Counter[datetime] = Counter()
            for table in raw_tables(lake, ledger, contract):
                counted += rows_by_hour(lake, table, names, day, day)
            self._hours[day] = counted
        return self._hours[day]

    def _read(self) -> dict[date, int]:
        lake, ledger, contract = self._parts
        rows: Counter[date] = Counter()
        for table in raw_tables(lake, ledger, contract):
            with lake.translated(contract.name):
                for day, path, count in files_by_day(table):
                    rows[day] += count
                    load_id = path.rsplit("/", 1)[-1].split("-", 1)[0]
                    self._loads.setdefault(load_id, set()).add(day)
        return dict(rows)


def moment_of(load: Load) -> date:
    """The day (UTC) by the source's clock on which a load read."""
    return read_at(load).date()


def read_at(load: Load) -> datetime:
    """When (UTC, without a zone) by the source's clock a load read; at its day's end where only the
    day is known."""
    if load.receipt is None:
        return datetime.combine(load.window.day, time.max)
    return datetime.fromisoformat(load.receipt.moment).replace(tzinfo=None)
