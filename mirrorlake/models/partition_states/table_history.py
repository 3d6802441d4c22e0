"""What the history of a model's table says: which commit computed which partition, from what, and
what somebody else did to them.

What belongs here: commits and records. What doesn't: the state of a partition
(`mirrorlake.models.partition_states.states`).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.statistics import (
    partitions_changed,
    partitions_there,
    rows_by_partition,
)
from mirrorlake.destinations.iceberg.model import (
    LakeSnapshot,
    LakeTable,
    history,
    is_rewrite,
    snapshot_property,
)
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.models.compile.model import Model
from mirrorlake.models.ledger import ModelPartition, ModelRecords
from mirrorlake.models.partition_states.dropped_commits import PartitionDrop
from mirrorlake.models.partition_states.lake_tables import model_table
from mirrorlake.models.spark_sql.constants.values import Constant

PARTITIONS = "mirrorlake.model-partitions"
"""The property of a commit that says which partitions it computed, from what."""


def settle_records(lake: Lake, ledger: Ledger, model: Model) -> None:
    """Write down what the history of a model's table says of its records, before commits of it
    expire: a record that a later commit contradicts would be believed without that commit.

    Raises:
        LakeError, LedgerError
    """
    table = lake.load(model_table(model))
    if table is None or model.declaration.is_view:
        return
    known = ModelRecords(ledger).partitions(model.name)
    identity = str(table.metadata.table_uuid)
    here = {key: one for key, one in known.items() if one.table == identity}
    stands, foreign = records_that_stand(model, table, here, ledger)
    ModelRecords(ledger).forget_partitions(model.name, known.keys() - stands.keys())
    marked = {(one.key, one.reason) for one in ledger.dirty_marks(model.name)}
    declaration = uuid.uuid4().hex[:12]
    ledger.declare_invalid(
        [
            DirtyMark(uuid.uuid4().hex, declaration, model.name, why, "maintenance", key)
            for key, why in foreign.items()
            if (key, why) not in marked
        ]
    )


def records_that_stand(
    model: Model,
    table: LakeTable,
    known: Mapping[str, ModelPartition],
    ledger: Ledger,
) -> tuple[dict[str, ModelPartition], dict[str, str]]:
    """The records of a table that its history does not contradict, and those that only its history
    has: a run died before it could say so, or the ledger was lost. And of partitions that somebody
    else wrote to since, what was done to them, in words."""
    found = dict(known)
    commits = history(table)
    numbers = {one.snapshot_id: one.sequence_number or 0 for one in commits}
    others: list[LakeSnapshot] = []
    drops = {
        numbers[one.snapshot_id]: d for one in commits if (d := PartitionDrop.of(one)) is not None
    }

    def is_gone(key: str, number: int) -> bool:
        return any(drop.takes(key) for at, drop in drops.items() if at > number)

    for one in commits:
        said = snapshot_property(one, PARTITIONS)
        if numbers[one.snapshot_id] in drops:
            continue
        if said is None:
            names = ("added-data-files", "deleted-data-files", "added-delete-files")
            if not is_rewrite(one) and any(snapshot_property(one, name) for name in names):
                others.append(one)
            continue
        number = numbers[one.snapshot_id]
        fresh = {
            key
            for key in json.loads(said)["partitions"]
            if (key not in found or numbers.get(found[key].snapshot_id, 0) < number)
            and not is_gone(key, number)
        }
        if fresh:  # how many rows each has is read from the commit's files
            news = [each for each in recorded_by(model, table, said, one) if each.key in fresh]
            ModelRecords(ledger).record_partitions(news)
            found |= {record.key: record for record in news}
    # A commit that is there and that main does not lead to was set back; one that is not there has
    # expired: it is older than all that are.
    set_back = {one.snapshot_id for one in table.snapshots()} - set(numbers)
    stands = {
        key: one
        for key, one in found.items()
        if one.snapshot_id not in set_back and not is_gone(key, numbers.get(one.snapshot_id, 0))
    }
    foreign: dict[str, str] = {}
    for commit in sorted(others, key=lambda one: numbers[one.snapshot_id]):
        touched = _touched(model, table, commit)
        for key, one in stands.items():
            before = numbers.get(one.snapshot_id, 0) < numbers[commit.snapshot_id]
            if before and (touched is None or key in touched):
                foreign[key] = _foreign_words(commit)
    return stands, foreign


def _touched(model: Model, table: LakeTable, commit: LakeSnapshot) -> set[str] | None:
    """The partitions of which a commit added or took files; None where that can't be said."""
    by = len(model.declaration.partition_by)
    found = partitions_changed(table, commit)
    if found is None or any(len(values) != by for values in found):
        return None
    return {key_of_values(model, values) for values in found}


def _foreign_words(commit: LakeSnapshot) -> str:
    """The words for a commit that is not a model's own."""
    what = commit.summary.operation.value if commit.summary is not None else "commit"
    at = datetime.fromtimestamp(commit.timestamp_ms / 1000, UTC)
    return f"somebody else wrote to its rows ({what}, {at:%Y-%m-%d %H:%M} UTC)"


def recorded_by(
    model: Model, table: LakeTable, said: str, commit: LakeSnapshot
) -> list[ModelPartition]:
    """What a commit says that it computed; it does not say how long that took."""
    words = json.loads(said)
    cut: dict[str, str] = words.get("cut", {})
    by = len(model.declaration.partition_by)
    rows = {
        key_of_values(model, values): count
        for values, count in rows_by_partition(table, commit).items()
        if len(values) == by
    }
    return [
        ModelPartition(
            model=model.name,
            key=key,
            fingerprint=words["fingerprint"],
            table=str(table.metadata.table_uuid),
            snapshot_id=commit.snapshot_id,
            inputs=inputs,
            rows=rows.get(key, 0),
            seconds=0,
            run_id=words["run"],
            computed_at=datetime.fromtimestamp(commit.timestamp_ms / 1000, UTC),
            answers=tuple(words.get("answers", {}).get(key, ())),
            cut=cut.get("name"),
            cut_at=datetime.fromisoformat(cut["at"]) if cut else None,
        )
        for key, inputs in words["partitions"].items()
    ]


def keys_there(model: Model, table: LakeTable) -> set[str]:
    """The partitions of which a model's table has rows now, however they came there."""
    by = len(model.declaration.partition_by)
    return {key_of_values(model, one) for one in partitions_there(table) if len(one) == by}


def key_of_values(model: Model, values: Sequence[Constant]) -> str:
    """The name of a partition, by the values that its table has."""
    return model.key_of(dict(zip(model.declaration.partition_by, values, strict=True)))
