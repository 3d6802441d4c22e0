"""Whether a partition of a model is what its query would give now.

The data decides: a partition is computed if a commit in its table says so, with the fingerprint
that the model has now, and with inputs that have not moved since. Commits carry that themselves, so
a ledger that lost the record finds it again.

What belongs here: the state of partitions. What doesn't: computing them
(`mirrorlake.models.compute.run`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.models.compile.dependencies import (
    Input,
    MirrorInput,
    ModelInput,
    inputs_of,
    reads_gone,
)
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.compile.partition_times import time_name
from mirrorlake.models.compile.snapshot_models import newest_time
from mirrorlake.models.external_sources.tables import ExternalInput
from mirrorlake.models.ledger import ModelPartition, ModelRecords
from mirrorlake.models.partition_states.cut_reads import ModelReadings
from mirrorlake.models.partition_states.invalid_marks import (
    PartitionMarks,
    mark_words,
    waiting_words,
)
from mirrorlake.models.partition_states.lake_tables import model_table
from mirrorlake.models.partition_states.lost_views import lost_view
from mirrorlake.models.partition_states.partition_state import PartitionState, PartitionWait
from mirrorlake.models.partition_states.recorded_values import (
    held_as,
    held_since,
    moved_besides,
    seen_version,
    values_besides,
)
from mirrorlake.models.partition_states.table_history import keys_there, records_that_stand
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.models.spark_sql.constants.values import Constant
from mirrorlake.serving.catalogue import Catalogue


@dataclass
class States:
    """The states of a project's partitions; each is looked at once.

    Attributes:
        cut: at which mirrored tables are read, or `NO_CUT`; None: as `ModelReadings` has it.
        sets_back: of these models, partitions are stale that were computed from later versions.
    """

    project: Project
    catalogue: Catalogue
    lake: Lake
    ledger: Ledger
    cut: str | None = None
    sets_back: Set[str] = frozenset()
    _records: dict[str, dict[str, ModelPartition]] = field(
        default_factory=dict[str, dict[str, ModelPartition]]
    )
    _states: dict[tuple[str, str], PartitionState] = field(
        default_factory=dict[tuple[str, str], PartitionState]
    )
    _inputs: dict[tuple[str, str], tuple[Input, ...]] = field(
        default_factory=dict[tuple[str, str], "tuple[Input, ...]"]
    )

    _foreign: dict[str, dict[str, str]] = field(default_factory=dict[str, "dict[str, str]"])
    _newest: dict[str, Constant] = field(default_factory=dict[str, Constant])
    _there: dict[str, Set[str]] = field(default_factory=dict[str, "Set[str]"])
    _missing: dict[str, bool] = field(default_factory=dict[str, bool])

    @cached_property
    def readings(self) -> ModelReadings:
        """How models read mirrored tables."""
        return ModelReadings(self.project, self.catalogue, self.lake, self.ledger, self.cut)

    def __post_init__(self) -> None:
        self.dirty = PartitionMarks(self.ledger)

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
        self._foreign.pop(model.name, None)
        self.dirty.forget()
        self._states.pop((model.name, key), None)
        for reader in self.project.readers.get(model.name, ()):
            for name, other in list(self._states):
                if name == reader:
                    self.forget(self.project.models[reader], other)

    def look_again(self, model: Model) -> None:
        """Another run may have taken partitions of a snapshot since they were looked at: they stay
        as it took them."""
        if not model.declaration.is_snapshot:
            return
        self._records.pop(model.name, None)
        self._there.pop(model.name, None)
        for name, key in list(self._states):
            if name == model.name:
                del self._states[name, key]

    def made_again(self, model: Model) -> None:
        """A model has another table: it, and what reads it, is looked at again."""
        self._there.pop(model.name, None)
        for name, key in list(self._states):
            if name == model.name:
                self.forget(model, key)

    def inputs(self, model: Model, scope: ScopeValues) -> dict[str, str]:
        """What the partition would read now, by table; and what its readers take it for, where it
        is computed again on somebody's word alone."""
        found = {one.table: self._version_of(model, one)[0] for one in self.read_by(model, scope)}
        found |= values_besides(self.project, model, scope)
        state = self.of(model, scope)
        if state.held and state.record is not None:
            found |= held_as(state.record, state.why)
        return found

    def remember(self, model: Model, batch: Sequence[ScopeValues]) -> None:
        """Mirrored tables are about to be read for some partitions."""
        versions = self.readings.versions(model)
        for scope in batch:
            for one in self.read_by(model, scope):
                if isinstance(one, MirrorInput):
                    versions.remember(one.table, one.column or "")

    def read_by(self, model: Model, scope: ScopeValues) -> tuple[Input, ...]:
        """What a partition reads."""
        place = model.name, model.key_of(scope)
        found = self._inputs.get(place)
        if found is None:
            found = inputs_of(self.project, self.catalogue, model, scope)
            self._inputs[place] = found
        return found

    def _version_of(self, model: Model, one: Input) -> tuple[str, list[PartitionWait]]:
        """What an input of a model is now, and which partitions of it are still to be computed."""
        if isinstance(one, MirrorInput):
            return str(self.readings.versions(model).now(one.table)), []
        if isinstance(one, ExternalInput):
            return self.project.externals[one.table].version(one.reached), []
        above = self.project.models[one.table]
        digest, waits = hashlib.sha256(), list[PartitionWait]()
        for key in one.keys:
            state = self.of(above, above.by_key[key])
            if state.is_due:
                waits.append(PartitionWait(one.table, key, state.held))
            version = seen_version(state.record) if state.record is not None else 0
            digest.update(f"{key}\0{version}\0".encode())
        return digest.hexdigest()[:16], waits

    def _moved(self, model: Model, one: Input, was: str | None, now: str) -> str:
        """What moved of an input since it was read, in a few words; empty if nothing did."""
        if isinstance(one, MirrorInput):
            sets_back = model.name in self.sets_back
            return self.readings.versions(model).moved(one, was, sets_back=sets_back)
        return "" if was == now else f"{one.table} moved"

    def _look(self, model: Model, scope: ScopeValues, key: str) -> PartitionState:
        record = self.records(model).get(key)
        why_not = self.why_over(model, scope)
        if why_not:
            return self._over(model, scope, key, record, why_not)
        inputs = self.read_by(model, scope)
        found = {one.table: self._version_of(model, one) for one in inputs}
        now = {table: version for table, (version, _) in found.items()}
        above = [one for _, several in found.values() for one in several]
        marks = self.dirty.of(model.name, key)
        waits = tuple(one.words for one in above)
        waits = (*self.dirty.waits(marks), *waits) if marks else waits
        if record is None:
            return PartitionState(key, "missing", "never computed", None, waits)
        # What somebody declared invalid without what reads it holds no other partition up.
        held = self._without(above, marks)
        why = self._why_stale(model, scope, record, now, [one for one in above if one not in held])
        if marks:
            return PartitionState(key, "stale", mark_words(marks), record, waits, held=not why)
        shown = self._shown(record, now) if model.declaration.is_view else record
        if why:
            return PartitionState(key, "stale", why, shown, waits)
        if model.declaration.is_snapshot:
            return PartitionState(key, "computed", "", record, ())
        return PartitionState(key, "computed", self._held_words(held, inputs, record), shown)

    def _without(
        self, above: Sequence[PartitionWait], marks: Sequence[DirtyMark]
    ) -> list[PartitionWait]:
        """Partitions above that were declared invalid, and this one was not with them."""
        own = {one.declaration for one in marks}
        return [
            one
            for one in above
            if one.held
            and not own & {mark.declaration for mark in self.dirty.of(one.model, one.key)}
        ]

    def _why_stale(
        self,
        model: Model,
        scope: ScopeValues,
        record: ModelPartition,
        now: Mapping[str, str],
        waits: Sequence[PartitionWait],
    ) -> str:
        """What makes a partition stale beside what somebody declared, in a few words; empty where
        nothing does."""
        if record.fingerprint != model.fingerprint:
            return "the model changed"
        foreign = self._foreign.get(model.name, {}).get(record.key, "")
        if foreign or model.declaration.is_snapshot:
            return foreign
        if model.declaration.is_view:
            # A view has no rows of its own: it is what it reads.
            lost = lost_view(self.lake, self.catalogue, model)
            words = [f"view {lost} is not there"] if lost is not None else []
            return "; ".join([*words, *(self.waiting_words(one.words) for one in waits[:1])])
        moved = [
            self._moved(model, one, record.inputs.get(one.table), now[one.table])
            for one in self.read_by(model, scope)
        ]
        moved += moved_besides(record, values_besides(self.project, model, scope))
        why = "; ".join(one for one in moved if one)
        return why or (self.waiting_words(waits[0].words) if waits else "")

    def _shown(self, record: ModelPartition, now: Mapping[str, str]) -> ModelPartition:
        """A view's record, by what it reads now."""
        said = json.dumps(dict(now), sort_keys=True).encode()
        return replace(record, snapshot_id=int(hashlib.sha256(said).hexdigest()[:15], 16))

    def _held_words(
        self, held: Sequence[PartitionWait], inputs: Sequence[Input], record: ModelPartition
    ) -> str:
        """What was declared invalid of the partitions that one reads, and left it as it is."""
        for one in held:
            marks = self.dirty.of(one.model, one.key)
            return f"{one.words}, which it reads, was {mark_words(marks)}; this one was not"
        for one in inputs:
            above = self.project.models.get(one.table)
            for key in one.keys if above is not None and isinstance(one, ModelInput) else ():
                assert above is not None  # noqa: S101
                found = self.records(above).get(key)
                why = held_since(found, record) if found is not None else ""
                if why:
                    name = f"{one.table} {key}".strip()
                    return f"{name}, which it reads, was computed again since ({why})"
        return ""

    def waiting_words(self, wait: str) -> str:
        """What a partition waits for, one of its `PartitionState.waits`, in words."""
        return waiting_words(wait, self.state_of(wait))

    def state_of(self, wait: str) -> str:
        """The state of a partition that another waits for; empty of days of a mirrored table."""
        name, _, key = wait.partition(" ")
        above = self.project.models.get(name)
        return self.of(above, above.by_key[key]).word if above is not None else ""

    def why_over(self, model: Model, scope: ScopeValues) -> str:
        """Why a partition can't be computed any more, in a few words; empty where it can: of a
        snapshot only those of the newest time can be, and none whose inputs are not kept, or were
        never made and can't be. A view shows what is there."""
        if model.declaration.is_view:
            return ""
        if model.declaration.is_snapshot:
            if model.name not in self._newest:
                self._newest[model.name] = newest_time(model)
            if scope[time_name(model.declaration, model.types)] != self._newest[model.name]:
                return "its time is over"
        gone = reads_gone(self.project, self.catalogue, model, scope)
        if gone is not None:
            return f"{gone[0]} {gone[1]}, which it reads, is no longer kept"
        missed = self._reads_missed(model, scope)
        return f"{missed}, which it reads, was missed" if missed else ""

    def _reads_missed(self, model: Model, scope: ScopeValues) -> str:
        """A partition that one reads and that was missed; empty without one."""
        if self._may_miss(model.name):
            for one in self.read_by(model, scope):
                above = self.project.models.get(one.table)
                if above is not None and isinstance(one, ModelInput):
                    for key in one.keys:
                        if self.of(above, above.by_key[key]).word == "missed":
                            return f"{one.table} {key}".strip()
        return ""

    def _may_miss(self, name: str) -> bool:
        """Whether partitions of what a model reads can be missed at all."""
        if name not in self._missing:
            above = [self.project.models.get(table) for table in self.project.models[name].reads]
            self._missing[name] = any(
                one is not None
                and (one.declaration.is_snapshot or bool(one.gone) or self._may_miss(one.name))
                for one in above
            )
        return self._missing[name]

    def _over(
        self,
        model: Model,
        scope: ScopeValues,
        key: str,
        record: ModelPartition | None,
        why: str,
    ) -> PartitionState:
        """The state of a partition that can't be computed any more: it stays as it is."""
        if record is not None:
            changed = "; ".join(self._changed(model, scope, key, record))
            words = f"{changed}; and {why}" if changed else ""
            return PartitionState(key, "computed", words, record)
        if key in self._keys_there(model):
            return PartitionState(key, "computed", "its rows are there; of when, is not known")
        return PartitionState(key, "missed", f"never computed, and {why}")

    def _changed(
        self, model: Model, scope: ScopeValues, key: str, record: ModelPartition
    ) -> Iterator[str]:
        """For what a partition would be computed again, if it could be. A snapshot's stays as it
        was taken; of models that are read, some is gone, and all else is not compared."""
        marks = self.dirty.of(model.name, key)
        if marks:
            yield mark_words(marks)
        if model.declaration.is_snapshot:
            return
        if record.fingerprint != model.fingerprint:
            yield "the model changed"
        foreign = self._foreign.get(model.name, {}).get(key, "")
        if foreign:
            yield foreign
        for one in self.read_by(model, scope):
            if not isinstance(one, ModelInput):
                now, _ = self._version_of(model, one)
                moved = self._moved(model, one, record.inputs.get(one.table), now)
                if moved:
                    yield moved

    def _keys_there(self, model: Model) -> Set[str]:
        """The partitions of which a model's table has rows."""
        if model.name not in self._there:
            table = self.lake.load(model_table(model))
            found = keys_there(model, table) if table is not None else set[str]()
            self._there[model.name] = found
        return self._there[model.name]

    def records(self, model: Model) -> dict[str, ModelPartition]:
        """What was computed of a model and is still in its table."""
        found = self._records.get(model.name)
        if found is None:
            found = self._records[model.name] = self._read(model)
        return found

    def _read(self, model: Model) -> dict[str, ModelPartition]:
        known = ModelRecords(self.ledger).partitions(model.name)
        if model.declaration.is_view:
            return known
        table = self.lake.load(model_table(model))
        if table is None:
            return {}
        identity = str(table.metadata.table_uuid)
        here = {key: one for key, one in known.items() if one.table == identity}
        found, foreign = records_that_stand(model, table, here, self.ledger)
        self._foreign[model.name] = foreign
        if any(one.answers for one in found.values()):
            self.dirty.forget()  # a commit was found that answers some
        return found
