"""Models as the core asks for them: what is computed from mirrored tables.

What belongs here: the core's questions (`mirrorlake.operations.planning.computed`), handed on. What
doesn't: an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial
from shlex import quote
from typing import Self

from mirrorlake.config import Config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.statistics import sizes_of_partitions
from mirrorlake.errors import ModelError
from mirrorlake.ledger import Ledger
from mirrorlake.models.bigquery.published import PublishedModel, published_models
from mirrorlake.models.changes.impact import impacts_of, with_costs
from mirrorlake.models.changes.since_run import plan_models
from mirrorlake.models.compile.column_uses import table_places
from mirrorlake.models.compile.dependencies import unbounded
from mirrorlake.models.compile.model import Project
from mirrorlake.models.compile.revealing_conditions import told_by_conditions
from mirrorlake.models.compute.backfill import ModelWork, compute, find_partitions, looked_at_again
from mirrorlake.models.contract_models import (
    Uncompiled,
    compile_project,
    compile_readable,
    has_model,
    models_folder,
)
from mirrorlake.models.ledger import ModelRecords
from mirrorlake.models.partition_states.derived import (
    Origins,
    chosen_keys,
    derived,
    models_with_days,
)
from mirrorlake.models.partition_states.input_proofs import InputProofs
from mirrorlake.models.partition_states.lake_tables import model_table
from mirrorlake.models.partition_states.states import States
from mirrorlake.models.testing.run_tests import with_tests_checked
from mirrorlake.models.upkeep.maintain import maintain_model, stored_models
from mirrorlake.operations.days.backfill_windows import WorkRequest
from mirrorlake.operations.days.invalid import DayPeriod
from mirrorlake.operations.planning.computed import (
    Computed,
    FoundPartitions,
    ModelFilled,
    NamedPartitions,
    PartitionWork,
    PlannedModels,
    Unreadable,
)
from mirrorlake.operations.planning.forecasts import forecast_partitions
from mirrorlake.operations.planning.planned_steps import PlannedStep
from mirrorlake.operations.planning.reader_impacts import ModelImpact
from mirrorlake.operations.schema_changes.altered_tables import AlteredCatalogue
from mirrorlake.operations.upkeep.maintain import Ages, Maintained
from mirrorlake.serving.catalogue import Catalogue
from mirrorlake.workspace import Workspace


@dataclass
class ComputedModels(Computed):
    """The models beside a contract file, compiled."""

    config: Config
    states: States

    @property
    def project(self) -> Project:
        return self.states.project

    @classmethod
    def names(cls, config: Config, name: str) -> bool:
        return has_model(config, name)

    @classmethod
    def used(cls, config: Config) -> bool:
        return models_folder(config).is_dir()

    @classmethod
    def open(
        cls, config: Config, ledger: Ledger, lake: Lake, catalogue: Catalogue | None = None
    ) -> Self:
        project, catalogue = compile_project(config, lake, catalogue=catalogue)
        return cls(config, States(project, catalogue, lake, ledger))

    @classmethod
    def maintenance(
        cls, workspace: Workspace, names: Sequence[str], ages: Ages | None = None
    ) -> Iterator[tuple[str, Callable[[], list[Maintained]]]]:
        wanted = {name.lower() for name in names}
        project, *_ = compile_readable(workspace.config, workspace.lake)
        for name in stored_models(workspace, project):
            if not names or name in wanted:
                yield name, partial(maintain_model, workspace, project, name, ages)

    @property
    def problems(self) -> Sequence[ModelError]:
        return self.project.errors

    def with_days(self, first: date | None, last: date | None) -> tuple[str, ...]:
        return models_with_days(self.project, first, last)

    def find(self, request: WorkRequest) -> FoundPartitions:
        return find_partitions(self.project, self.states, request)

    def plan(self, works: Iterable[PartitionWork], today: date) -> Iterator[PlannedStep]:
        proofs = InputProofs(self.states.catalogue, self.states.ledger, today)
        for one in works:
            if isinstance(one, ModelWork):
                yield _step(one, self.states, proofs)

    def run(
        self,
        workspace: Workspace,
        works: Iterable[PartitionWork],
        watch: Callable[[object], None],
    ) -> list[ModelFilled]:
        mine = [one for one in works if isinstance(one, ModelWork)]
        # What was loaded is another version of its table: states are looked at again.
        states = States(self.project, self.states.catalogue, workspace.lake, workspace.ledger)
        again = looked_at_again(mine, self.project, states)
        return [compute(workspace, states, one, watch) for one in again]

    def published(self, names: Iterable[str]) -> Sequence[PublishedModel]:
        return published_models(self.project.models[name].declaration for name in names)

    def declared(
        self, target: NamedPartitions, choice: str
    ) -> tuple[str, Mapping[str, tuple[str, ...]]] | None:
        name, project = target.name.lower(), self.project
        if name in project.externals:
            external = project.externals[name]
            raise ModelError(
                f"{external.name} is made elsewhere ({external.declaration.path}): nothing here "
                "makes it again",
                next_step="Declare a model that reads it invalid",
            )
        if name not in (*project.models, *project.unfinished):
            return None
        model = project.model(name)
        if model.declaration.is_snapshot:
            raise ModelError(
                f"{model.name} is a snapshot: what it holds is what was there then",
                next_step=f"`mirrorlake run {quote(model.name)} --again` takes its newest "
                "partition again",
            )
        if model.declaration.is_view:
            raise ModelError(
                f"{model.name} is a view: it has no rows of its own",
                next_step="Declare what it reads, or what reads it",
            )
        keys = chosen_keys(model, target.values, target.first, target.last)
        origins = Origins(model=model.name, keys=frozenset(keys))
        below = derived(project, self.states.catalogue, origins, choice)
        return model.name, {model.name: keys, **below}

    def derived(
        self, tables: frozenset[str], days: DayPeriod, choice: str
    ) -> Mapping[str, tuple[str, ...]]:
        return derived(self.project, self.states.catalogue, Origins(tables, days), choice)

    def planned(self) -> PlannedModels:
        catalogue = self.states.catalogue
        project = with_tests_checked(models_folder(self.config), self.project, catalogue)
        facts = {
            name: {
                "partitions": len(one.scopes),
                "reads": list(one.bound.reads),
                "columns": {f.name: f.value.type for f in one.fields},
                "fingerprint": one.fingerprint,
                "cut": self.states.readings.of(one).cut_name,
                "warnings": [
                    *unbounded(project, catalogue, one),
                    *told_by_conditions(catalogue, one),
                ],
            }
            for name, one in project.models.items()
        }
        return PlannedModels(plan_models(project, self.states.ledger), facts, project.errors)

    def impacts(self, altered: AlteredCatalogue, *, costs: bool = False) -> list[ModelImpact]:
        found = impacts_of(self.project, altered)
        if not costs:
            return found
        models, ledger = self.project.models, self.states.ledger
        return [with_costs(one, models[one.model], ledger) for one in found]

    def readers(self, tables: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        for model in self.project.models.values():
            for table in tables:
                for place in table_places(model, table):
                    yield place, model.name, table

    def unreadable(self, tables: Sequence[str]) -> Iterator[Unreadable]:
        for one in self._uncompiled:
            if one.may_read(tables):
                yield Unreadable(one.words, one.next_step)

    @cached_property
    def _uncompiled(self) -> Sequence[Uncompiled]:
        if not self.problems:
            return ()
        return compile_readable(self.config, self.states.lake)[-1]


def _step(work: ModelWork, states: States, proofs: InputProofs) -> PlannedStep:
    """What computing some partitions is expected to take, and what they read that is not proved."""
    model, keys = work.model, tuple(one.key for one in work.states)
    why = Counter(one.why or "again" for one in work.states)
    inputs = (states.read_by(model, model.by_key[key]) for key in keys)
    records = ModelRecords(states.ledger).partitions(model.name)
    table = states.lake.load(model_table(model)) if records else None
    sizes = sizes_of_partitions(table) if table is not None else ()
    forecast = forecast_partitions(records, keys, sizes)
    unproved = tuple(proofs.unproved(inputs))
    return PlannedStep("compute", model.name, len(keys), keys, dict(why), forecast, unproved)
