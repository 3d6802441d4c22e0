"""Whether a partition of a model is what its query would give now.

The data decides: a partition is computed if a commit in its table says so, with the fingerprint
that the model has now, and with inputs that have not moved since. Commits carry that themselves, so
a ledger that lost the record finds it again.

What belongs here: the state of partitions. What doesn't: computing them
(`mirrorlake.operations.models.runs`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commit import snapshot_property
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSnapshot, LakeTable, history, is_rewrite
from mirrorlake.destinations.iceberg.statistics import rows_by_partition
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.model_partitions import ModelPartition
from mirrorlake.models.catalogue import Catalogue
from mirrorlake.models.dependencies import Input, MirrorInput, ModelInput, inputs_of
from mirrorlake.models.project import Model, Project, ScopeValues
from mirrorlake.models.scopes import text_of

PARTITIONS = "mirrorlake.model-partitions"
"""The property of a commit that says which partitions it computed, from what."""
StateWord = Literal["computed", "stale", "missing"]


@dataclass(frozen=True)
class PartitionState:
    """The state of one partition.

    Attributes:
        why: what makes it stale or missing, in a few words; empty of a computed one.
        record: what was computed last; None where nothing was.
        waits: partitions of models above that are not computed, ``model key``; it can't be computed
            before them.
    """

    key: str
    word: StateWord
    why: str = ""
    record: ModelPartition | None = None
    waits: tuple[str, ...] = ()


def model_table(model: Model) -> Identifier:
    """The lake table of a model."""
    namespace, name = model.name.split(".")
    return Identifier(namespace, name)


@dataclass
class States:
    """The states of a project's partitions; each is looked at once."""

    project: Project
    catalogue: Catalogue
    lake: Lake
    ledger: Ledger
    _records: dict[str, dict[str, ModelPartition]] = field(
        default_factory=dict[str, dict[str, ModelPartition]]
    )
    _states: dict[tuple[str, str], PartitionState] = field(
        default_factory=dict[tuple[str, str], PartitionState]
    )
    _heads: dict[str, str] = field(default_factory=dict[str, str])

    def of(self, model: Model, scope: ScopeValues) -> PartitionState:
        """The state of one partition, and of all above it.

        Raises:
            LakeError: the lake can't be read.
            LedgerError: the ledger can't be read.
        """
        key = model.key_of(scope)
        found = self._states.get((model.name, key))
        if found is None:
            found = self._states[model.name, key] = self._look(model, scope, key)
        return found

    def forget(self, model: Model, key: str) -> None:
        """A partition was computed: it, and what reads it, is looked at again."""
        self._records.pop(model.name, None)
        self._states.pop((model.name, key), None)
        for reader in self.project.readers.get(model.name, ()):
            for name, other in list(self._states):
                if name == reader:
                    self.forget(self.project.models[reader], other)

    def inputs(self, model: Model, scope: ScopeValues) -> tuple[dict[str, str], tuple[str, ...]]:
        """What the partition would read now, by table; and the partitions above that are not
        computed."""
        found: dict[str, str] = {}
        waits: list[str] = []
        for one in inputs_of(self.project, self.catalogue, model, scope):
            found[one.table] = self._version_of(one, waits)
        return found, tuple(waits)

    def _version_of(self, one: Input, waits: list[str]) -> str:
        if isinstance(one, MirrorInput):
            return self._head(one.table)
        assert isinstance(one, ModelInput)  # noqa: S101
        above = self.project.models[one.table]
        digest = hashlib.sha256()
        for key in one.keys:
            state = self.of(above, above.by_key[key])
            if state.word != "computed":
                waits.append(f"{one.table} {key}".strip())
            snapshot = state.record.snapshot_id if state.record is not None else 0
            digest.update(f"{key}\0{snapshot}\0".encode())
        return digest.hexdigest()[:16]

    def _head(self, name: str) -> str:
        """The version of a mirrored table that a query reads now. Clean as a view shows deduped."""
        found = self._heads.get(name)
        if found is None:
            table = self.catalogue.table(name)
            assert table is not None  # noqa: S101
            head = self.lake.head(table.identifier)
            deduped = Identifier(table.contract.namespaces.deduped, table.contract.table)
            head = self.lake.head(deduped) if head is None else head
            found = self._heads[name] = str(head or 0)
        return found

    def _look(self, model: Model, scope: ScopeValues, key: str) -> PartitionState:
        if model.declaration.materialized == "view":
            return self._of_view(model, scope, key)
        record = self.records(model).get(key)
        now, waits = self.inputs(model, scope)
        if record is None:
            return PartitionState(key, "missing", "never computed", None, waits)
        if record.fingerprint != model.fingerprint:
            return PartitionState(key, "stale", "the model changed", record, waits)
        moved = sorted(name for name in now if record.inputs.get(name) != now[name])
        if moved:
            return PartitionState(key, "stale", f"{', '.join(moved)} moved", record, waits)
        if waits:
            return PartitionState(key, "stale", f"{waits[0]} is not computed", record, waits)
        return PartitionState(key, "computed", "", record)

    def _of_view(self, model: Model, scope: ScopeValues, key: str) -> PartitionState:
        """A view has no rows of its own: it is what it reads."""
        record = self.records(model).get(key)
        now, waits = self.inputs(model, scope)
        if record is None:
            return PartitionState(key, "missing", "never made", None, waits)
        if record.fingerprint != model.fingerprint:
            return PartitionState(key, "stale", "the model changed", record, waits)
        version = int(hashlib.sha256(json.dumps(now, sort_keys=True).encode()).hexdigest()[:15], 16)
        shown = replace(record, snapshot_id=version)
        return PartitionState(key, "stale" if waits else "computed", "", shown, waits)

    def records(self, model: Model) -> dict[str, ModelPartition]:
        """What was computed of a model and is still in its table."""
        found = self._records.get(model.name)
        if found is None:
            found = self._records[model.name] = self._read(model)
        return found

    def _read(self, model: Model) -> dict[str, ModelPartition]:
        known = self.ledger.model_partitions(model.name)
        if model.declaration.materialized == "view":
            return known
        table = self.lake.load(model_table(model))
        if table is None:
            return {}
        identity = str(table.metadata.table_uuid)
        here = {key: one for key, one in known.items() if one.table == identity}
        return _with_commits(model, table, here, self.ledger)


def _with_commits(
    model: Model,
    table: LakeTable,
    known: Mapping[str, ModelPartition],
    ledger: Ledger,
) -> dict[str, ModelPartition]:
    """The records of a table that its history does not contradict, and those that only its history
    has: a run died before it could say so, or the ledger was lost."""
    found = dict(known)
    commits = history(table)
    numbers = {one.snapshot_id: one.sequence_number or 0 for one in commits}
    foreign = 0
    for one in commits:
        said = snapshot_property(one, PARTITIONS)
        if said is None:
            names = ("added-data-files", "deleted-data-files", "added-delete-files")
            if not is_rewrite(one) and any(snapshot_property(one, name) for name in names):
                foreign = max(foreign, one.sequence_number or 0)
            continue
        by_commit = numbers[one.snapshot_id]
        news = [
            record
            for record in recorded_by(model, table, said, one)
            if record.key not in found or numbers.get(found[record.key].snapshot_id, 0) < by_commit
        ]
        ledger.record_model_partitions(news)
        found |= {record.key: record for record in news}
    # A commit that is there and that main does not lead to was set back; one that is not there has
    # expired: it is older than all that are.
    set_back = {one.snapshot_id for one in table.snapshots()} - set(numbers)
    return {
        key: one
        for key, one in found.items()
        if one.snapshot_id not in set_back
        and (numbers.get(one.snapshot_id, 0) > foreign or not foreign)
    }


def recorded_by(
    model: Model, table: LakeTable, said: str, commit: LakeSnapshot
) -> list[ModelPartition]:
    """What a commit says that it computed; it does not say how long that took."""
    words = json.loads(said)
    by = model.declaration.partition_by
    rows = {
        "/".join(f"{name}={text_of(value)}" for name, value in zip(by, values, strict=True)): count
        for values, count in rows_by_partition(table, commit).items()
        if len(values) == len(by)
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
        )
        for key, inputs in words["partitions"].items()
    ]
