"""What was computed of SQL models: of each partition the commit that holds it, by what, from what.

What belongs here: the records. What doesn't: whether a partition is still what it should be
(`mirrorlake.operations.models.states`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from mirrorlake.ledger.database import Database, utc_now
from mirrorlake.ledger.tables import DIRTY_MARKS, MODEL_PARTITIONS


@dataclass(frozen=True)
class ModelPartition:
    """One partition of a model, as it was last computed; the moment is UTC.

    Attributes:
        key: its name; empty of a model without partitions.
        fingerprint: of the model then.
        table: the identity of the lake table that it is in.
        snapshot_id: the commit that holds it.
        inputs: table → what the query read of it: a version of a mirrored table, a digest of the
            partitions of a model.
        seconds: how long it took; 0 where only the commit says that it was computed.
        answers: ids of the dirty marks that were seen before it was computed.
    """

    model: str
    key: str
    fingerprint: str
    table: str
    snapshot_id: int
    inputs: Mapping[str, str]
    rows: int
    seconds: float
    run_id: str
    computed_at: datetime | None = None
    answers: tuple[str, ...] = ()


class ModelPartitions:
    """The computed partitions of one ledger; a part of `Ledger`."""

    _database: Database

    def record_model_partitions(self, partitions: Sequence[ModelPartition]) -> None:
        """Keep what was computed of some partitions, all or none; an earlier record of one is
        replaced. The dirty marks that they answer go with it."""
        if not partitions:
            return
        with self._database.begin() as connection:
            for one in partitions:
                here = (MODEL_PARTITIONS.c.model == one.model) & (
                    MODEL_PARTITIONS.c.partition_key == one.key
                )
                connection.execute(MODEL_PARTITIONS.delete().where(here))
            connection.execute(MODEL_PARTITIONS.insert(), [_row(one) for one in partitions])
            for one in partitions:
                if one.answers:
                    answered = DIRTY_MARKS.c.mark_id.in_(one.answers)
                    connection.execute(DIRTY_MARKS.delete().where(answered))

    def forget_model_partitions(self, model: str, keys: Collection[str]) -> None:
        """What was computed of some partitions is forgotten: their rows are to go."""
        with self._database.begin() as connection:
            for key in keys:
                here = (MODEL_PARTITIONS.c.model == model) & (
                    MODEL_PARTITIONS.c.partition_key == key
                )
                connection.execute(MODEL_PARTITIONS.delete().where(here))

    def model_partitions(self, model: str) -> dict[str, ModelPartition]:
        """What was computed of a model, by partition."""
        query = MODEL_PARTITIONS.select().where(MODEL_PARTITIONS.c.model == model)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(MODEL_PARTITIONS.c.partition_key)).all()
        return {row.partition_key: _partition(row) for row in rows}


def _moment(given: datetime | None) -> datetime:
    return utc_now() if given is None else given.astimezone(UTC).replace(tzinfo=None)


def _row(one: ModelPartition) -> dict[str, object]:
    return {
        "model": one.model,
        "partition_key": one.key,
        "fingerprint": one.fingerprint,
        "lake_table": one.table,
        "snapshot_id": one.snapshot_id,
        "inputs": json.dumps(dict(one.inputs), sort_keys=True),
        "rows_computed": one.rows,
        "seconds": one.seconds,
        "run_id": one.run_id,
        "computed_at": _moment(one.computed_at),
    }


def _partition(row: sa.Row[tuple[object, ...]]) -> ModelPartition:
    return ModelPartition(
        model=row.model,
        key=row.partition_key,
        fingerprint=row.fingerprint,
        table=row.lake_table,
        snapshot_id=row.snapshot_id,
        inputs=json.loads(row.inputs),
        rows=row.rows_computed,
        seconds=row.seconds,
        run_id=row.run_id,
        computed_at=row.computed_at.replace(tzinfo=UTC),
    )
