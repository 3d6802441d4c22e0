"""Which partitions of models are to be computed, and computing them.

What belongs here: partitions, each after those that it reads. What doesn't: days of tables
(`mirrorlake.operations.planning.work`), and the state of one partition
(`mirrorlake.models.partition_states.states`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mirrorlake.errors import ConfigError, MirrorlakeError, ModelError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.compute.run import run_model
from mirrorlake.models.partition_states.derived import chosen_keys
from mirrorlake.models.partition_states.partition_state import PartitionState
from mirrorlake.models.partition_states.states import States
from mirrorlake.operations.days.backfill_windows import WorkRequest
from mirrorlake.operations.days.invalid import InvalidRange
from mirrorlake.operations.planning.computed import FoundPartitions, ModelFilled
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelWork:
    """The partitions of one model that are to be computed.

    Attributes:
        states: of each, as it was when the plan was made; in order.
        again: whether those that need nothing are computed, too.
    """

    model: Model
    states: tuple[PartitionState, ...]
    again: bool = False

    @property
    def target(self) -> str:
        return self.model.name

    @property
    def count(self) -> int:
        return len(self.states)

    def first(self, count: int) -> ModelWork:
        """So many of them, the first ones."""
        return replace(self, states=self.states[:count])


@dataclass
class _Found:
    """What was found so far, by model and partition; ranges of tables by the id of their mark."""

    states: dict[str, dict[str, PartitionState]] = field(
        default_factory=dict[str, "dict[str, PartitionState]"]
    )
    ranges: dict[str, InvalidRange] = field(default_factory=dict[str, InvalidRange])
    warnings: list[str] = field(default_factory=list[str])


def find_partitions(project: Project, states: States, request: WorkRequest) -> FoundPartitions:
    """The partitions that are requested and due, and those that they wait for.

    Raises:
        ConfigError, ModelError: the request can't be meant.
        LakeError, LedgerError: they can't be read.
    """
    if request.models and request.which == "errored":
        raise ConfigError(
            "--errored is about loads of tables: a model has none", next_step="Leave out the models"
        )
    found = _Found()
    named = {project.model(name).name for name in request.models}
    if request.which == "invalid":
        everything = not request.tables and not named
        marks = states.ledger.dirty_marks()
        chosen = [m for m in marks if m.key is not None and (everything or m.target in named)]
        _find_marked(project, states, chosen, found)
    else:
        _find_due(project, states, request, found)
    _add_those_above(project, states, found)
    again = named if request.which == "all" else set[str]()
    works = tuple(_model_work(project, found, again))
    return FoundPartitions(works, tuple(found.ranges.values()), found.warnings)


def _find_due(project: Project, states: States, request: WorkRequest, found: _Found) -> None:
    for name in request.models:
        model = project.model(name)
        for key in chosen_keys(model, {}, request.first, request.last):
            state = states.of(model, model.by_key[key])
            again = request.which == "all" and not states.why_over(model, model.by_key[key])
            if state.is_due or again:
                found.states.setdefault(model.name, {})[key] = state


def _find_marked(
    project: Project, states: States, marks: Sequence[DirtyMark], found: _Found
) -> None:
    """The partitions of some marks, as far as they hold what could be wrong."""
    for mark in marks:
        key = mark.key or ""
        model = project.models.get(mark.target)
        scope = model.by_key.get(key) if model is not None else None
        if model is None or scope is None:
            name = f"{mark.target} {key}".strip()
            why = "is no more" if mark.target not in project.unfinished else "does not compile"
            found.warnings.append(f"{name} was declared invalid, and {why}")
            continue
        state = states.of(model, scope)
        # One that was never computed holds nothing that could be wrong; of one that is computed the
        # commit was found that answers the mark.
        if state.word == "stale":
            found.states.setdefault(model.name, {})[key] = state
        elif why := states.why_over(model, scope):
            found.warnings.append(f"{mark.target} {key} was declared invalid, and stays: {why}")


def _add_those_above(project: Project, states: States, found: _Found) -> None:
    """Take in what the partitions wait for: partitions of models above, and days that were
    declared invalid together with them."""
    waiting = [
        (name, key, state) for name, some in found.states.items() for key, state in some.items()
    ]
    while waiting:
        name, key, state = waiting.pop()
        declared = {mark.declaration for mark in states.dirty.of(name, key)}
        for one in states.dirty.ranges if state.waits else ():
            if one.mark.declaration in declared:
                found.ranges.setdefault(one.mark.mark_id, one)
        for words in state.waits:
            above, _, key_above = words.partition(" ")
            model = project.models.get(above)
            there = found.states.setdefault(above, {}) if model is not None else {}
            if model is None or key_above in there:
                continue
            there[key_above] = states.of(model, model.by_key[key_above])
            waiting.append((above, key_above, there[key_above]))


def looked_at_again(
    works: Iterable[ModelWork], project: Project, states: States
) -> tuple[ModelWork, ...]:
    """The models of some work, after its tables were folded: with what their partitions wait for
    now. A table that was loaded is another version, so more of what reads it may be stale.

    Raises:
        LakeError, LedgerError: they can't be read.
    """
    works, found = tuple(works), _Found()
    for one in works:
        by_key = one.model.by_key
        keys = [state.key for state in one.states]
        found.states[one.model.name] = {k: states.of(one.model, by_key[k]) for k in keys}
    _add_those_above(project, states, found)
    again = {one.model.name for one in works if one.again}
    return tuple(_model_work(project, found, again))


def _model_work(project: Project, found: _Found, again: Collection[str]) -> Iterator[ModelWork]:
    """Models with partitions to be computed, each after those that it reads."""
    for name, model in project.models.items():
        some = found.states.get(name)
        if some:
            states = tuple(some[key] for key in model.by_key if key in some)
            yield ModelWork(model, states, again=name in again)


def compute(
    workspace: Workspace, states: States, work: ModelWork, watch: Callable[[object], None]
) -> ModelFilled:
    """Compute those partitions of a model that wait for nothing."""
    model = work.model
    now = [states.of(model, model.by_key[one.key]) for one in work.states]
    ready = [one for one in now if not one.waits]
    waits = [one.waits[0] for one in now if one.waits]
    error: MirrorlakeError | None = None

    def keep(number: int) -> None:
        watch(number)
        failpoint("work.computed")

    try:
        scopes = [model.by_key[one.key] for one in ready]
        run_model(workspace, states, model, scopes, again=work.again, watch=keep)
    except MirrorlakeError as failure:
        logger.warning("model %s: %s", model.name, failure)
        error = failure
    # Also where it failed, some may be computed.
    after = [states.of(model, model.by_key[one.key]).record for one in ready]
    done = [
        new for new, was in zip(after, ready, strict=True) if new is not None and new != was.record
    ]
    words = (
        str(error)
        if error is not None
        else f"it waits: {states.waiting_words(waits[0])}"
        if waits
        else None
    )
    return ModelFilled(
        model=model.name,
        computed=len(done),
        unchanged=0 if error is not None else len(ready) - len(done),
        waiting=len(waits),
        rows=sum(one.rows for one in done),
        seconds=round(sum(one.seconds for one in done), 2),
        error=words,
        code=error.exit_code if error is not None else ModelError.exit_code if waits else 0,
    )
