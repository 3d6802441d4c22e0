"""What the ledger keeps of models: of each partition the commit that holds it, by what it was
computed and from what, and what its expectations said of its rows.

What belongs here: the records. What doesn't: whether a partition is still what it should be
(`mirrorlake.models.partition_states.states`), and looking at rows
(`mirrorlake.models.checks.before_publishing`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Literal

import sqlalchemy as sa

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import utc_now, waits_for_server
from mirrorlake.ledger.lake.lake_heads import OF_MODELS
from mirrorlake.ledger.tables import DIRTY_MARKS, METADATA
from mirrorlake.operations.status.copies import RecordedCopy

MODEL_PARTITIONS = sa.Table(
    "model_partitions",
    METADATA,
    sa.Column("model", sa.String(255), primary_key=True),
    sa.Column("partition_key", sa.String(500), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("lake_table", sa.String(64), nullable=False),
    sa.Column("snapshot_id", sa.BigInteger, nullable=False),
    sa.Column("inputs", sa.Text, nullable=False),
    sa.Column("rows_computed", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("run_id", sa.String(64), nullable=False),
    sa.Column("computed_at", sa.DateTime, nullable=False),
    sa.Column("cut", sa.String(64)),
    sa.Column("cut_at", sa.DateTime),
)
MODEL_CHECKS = sa.Table(
    "model_checks",
    METADATA,
    sa.Column("model", sa.String(255), primary_key=True),
    sa.Column("partition_key", sa.String(500), primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("lake_table", sa.String(64), nullable=False),
    sa.Column("rows_checked", sa.BigInteger, nullable=False),
    sa.Column("results", sa.Text, nullable=False),
    sa.Column("run_id", sa.String(64), nullable=False),
    sa.Column("checked_at", sa.DateTime, nullable=False),
)


@dataclass(frozen=True)
class ModelPartition:
    """One partition of a model, as it was last computed; moments are UTC.

    Attributes:
        key: its name; empty of a model without partitions.
        fingerprint: of the model then.
        table: the identity of the lake table that it is in.
        snapshot_id: the commit that holds it.
        inputs: table → what the query read of it: a version of a mirrored table, a digest of the
            partitions of a model.
        seconds: how long it took; 0 where only the commit says that it was computed.
        answers: ids of the dirty marks that were seen before it was computed.
        cut: at which the mirrored tables were read that it was computed from; None: each at main.
        cut_at: up to when all that was committed in their source is in it; None of main.
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
    cut: str | None = None
    cut_at: datetime | None = None


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


@waits_for_server
class ModelRecords:
    """The partitions of models in one ledger: what was computed, and what was found of its rows."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def record_partitions(self, partitions: Sequence[ModelPartition]) -> None:
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
            connection.execute(
                MODEL_PARTITIONS.insert(), [_partition_row(one) for one in partitions]
            )
            for one in partitions:
                if one.answers:
                    answered = DIRTY_MARKS.c.mark_id.in_(one.answers)
                    connection.execute(DIRTY_MARKS.delete().where(answered))

    def forget_partitions(self, model: str, keys: Collection[str]) -> None:
        """What was computed of some partitions is forgotten: their rows are to go."""
        with self._database.begin() as connection:
            for key in keys:
                here = (MODEL_PARTITIONS.c.model == model) & (
                    MODEL_PARTITIONS.c.partition_key == key
                )
                connection.execute(MODEL_PARTITIONS.delete().where(here))

    def partitions(self, model: str) -> dict[str, ModelPartition]:
        """What was computed of a model, by partition."""
        query = MODEL_PARTITIONS.select().where(MODEL_PARTITIONS.c.model == model)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(MODEL_PARTITIONS.c.partition_key)).all()
        return {row.partition_key: _partition(row) for row in rows}

    def record_checks(
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
            connection.execute(MODEL_CHECKS.insert(), [_checks_row(one) for one in checks])

    def checks(self, model: str) -> list[PartitionChecks]:
        """What was found of a model's partitions, the newest of each last."""
        table = MODEL_CHECKS.c
        query = MODEL_CHECKS.select().where(table.model == model)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(table.partition_key, table.checked_at)).all()
        return [_checks(row) for row in rows]


def model_copies(ledger: Ledger, since: datetime) -> Mapping[str, Sequence[RecordedCopy]]:
    """The partitions that were computed since a moment, and those whose rows were not as expected,
    by ``model dataset.name``."""
    plain = _moment(since)
    computed = MODEL_PARTITIONS.select().where(MODEL_PARTITIONS.c.computed_at >= plain)
    checked = MODEL_CHECKS.select().where(MODEL_CHECKS.c.checked_at >= plain)
    with ledger.database.read() as connection:
        partitions = [_partition(row) for row in connection.execute(computed)]
        checks = [_checks(row) for row in connection.execute(checked)]
    found: dict[str, list[RecordedCopy]] = {}
    for one in partitions:
        name, at = _shown_key(one.key), one.computed_at or since
        copy = RecordedCopy(name, at, "computed", rows=one.rows, seconds=one.seconds)
        found.setdefault(OF_MODELS + one.model, []).append(copy)
    for one in checks:
        if wrong := [result for result in one.results if not result.passed]:
            words = "; ".join(f"{result.name}: {result.said}" for result in wrong)
            state = "refused" if one.refused else "not as expected"
            at = one.checked_at or since
            shown, key = not one.refused, _shown_key(one.key)
            copy = RecordedCopy(key, at, state, True, shown, one.rows, words=words)
            found.setdefault(OF_MODELS + one.model, []).append(copy)
    return {name: sorted(copies, key=lambda one: one.at) for name, copies in found.items()}


def _shown_key(key: str) -> str:
    """A partition's key where it is a day; any other has values of rows."""
    try:
        return date.fromisoformat(key).isoformat()
    except ValueError:
        return "a partition" if key else "the whole table"


def _moment(given: datetime | None) -> datetime:
    return utc_now() if given is None else given.astimezone(UTC).replace(tzinfo=None)


def _partition_row(one: ModelPartition) -> dict[str, object]:
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
        "cut": one.cut,
        "cut_at": None if one.cut_at is None else _moment(one.cut_at),
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
        cut=row.cut,
        cut_at=None if row.cut_at is None else row.cut_at.replace(tzinfo=UTC),
    )


def _checks_row(one: PartitionChecks) -> dict[str, object]:
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
