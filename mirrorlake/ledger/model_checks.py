"""What was found of a model's expectations, by partition: which rows were looked at, and what each
expectation said of them.

What belongs here: the records. What doesn't: looking at rows
(`mirrorlake.operations.models.checks`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

import sqlalchemy as sa

from mirrorlake.ledger.database import Database, utc_now
from mirrorlake.ledger.tables import MODEL_CHECKS


@dataclass(frozen=True)
class CheckedExpectation:
    """What one expectation said of a partition's rows.

    Attributes:
        terms: a text that is another one if something else was expected.
        words: what was expected.
        failed: rows that were not as expected; None where they are not counted one by one.
        said: what was found, in a few words; no values.
    """

    name: str
    terms: str
    words: str
    severity: Literal["error", "warn"]
    passed: bool
    failed: int | None
    said: str


@dataclass(frozen=True)
class PartitionChecks:
    """What was found of the rows of one partition; the moment is UTC.

    Attributes:
        key: its name; empty of a model without partitions.
        table: the identity of the lake table.
        snapshot_id: the commit whose rows were looked at. If the partition in main is of another
            one, these were not published.
        rows: how many there were; all of them were looked at.
    """

    model: str
    key: str
    table: str
    snapshot_id: int
    rows: int
    results: tuple[CheckedExpectation, ...]
    run_id: str
    checked_at: datetime | None = None

    @property
    def refused(self) -> tuple[CheckedExpectation, ...]:
        """Those because of which the rows may not be published."""
        return tuple(one for one in self.results if not one.passed and one.severity == "error")


class ModelChecks:
    """The checked partitions of one ledger; a part of `Ledger`."""

    _database: Database

    def record_model_checks(
        self, checks: Sequence[PartitionChecks], published: Mapping[str, int]
    ) -> None:
        """Keep what was found of some partitions of one model, all or none.

        Earlier records of these are forgotten, but for those of rows that are published; a new look
        at published rows replaces an earlier one at the same rows, and no other record.

        Args:
            published: partition → the commit that holds it in main.
        """
        if not checks:
            return
        table = MODEL_CHECKS.c
        with self._database.begin() as connection:
            for one in checks:
                here = (table.model == one.model) & (table.partition_key == one.key)
                stays = published.get(one.key)
                if stays == one.snapshot_id:
                    here &= table.snapshot_id == stays
                elif stays is not None:
                    here &= table.snapshot_id != stays
                connection.execute(MODEL_CHECKS.delete().where(here))
            connection.execute(MODEL_CHECKS.insert(), [_row(one) for one in checks])

    def model_checks(self, model: str) -> list[PartitionChecks]:
        """What was found of a model's partitions, the newest of each last."""
        table = MODEL_CHECKS.c
        query = MODEL_CHECKS.select().where(table.model == model)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(table.partition_key, table.checked_at)).all()
        return [_checks(row) for row in rows]


def _row(one: PartitionChecks) -> dict[str, object]:
    return {
        "model": one.model,
        "partition_key": one.key,
        "snapshot_id": one.snapshot_id,
        "lake_table": one.table,
        "rows_checked": one.rows,
        "results": json.dumps([asdict(result) for result in one.results], ensure_ascii=False),
        "run_id": one.run_id,
        "checked_at": utc_now(),
    }


def _checks(row: sa.Row[tuple[object, ...]]) -> PartitionChecks:
    return PartitionChecks(
        model=row.model,
        key=row.partition_key,
        table=row.lake_table,
        snapshot_id=row.snapshot_id,
        rows=row.rows_checked,
        results=tuple(CheckedExpectation(**one) for one in json.loads(row.results)),
        run_id=row.run_id,
        checked_at=row.checked_at.replace(tzinfo=UTC),
    )
