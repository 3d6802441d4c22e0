"""What `mirrorlake show` says of a model, and of one of its partitions.

What belongs here: the answers. What doesn't: what a query means (`mirrorlake.models`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mirrorlake.errors import ModelError
from mirrorlake.ledger.lake.lake_heads import OF_MODELS
from mirrorlake.models.compile.dependencies import Input, ModelInput, readers_of, unbounded
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.compile.project import stored_columns
from mirrorlake.models.compile.revealing_conditions import told_by_conditions
from mirrorlake.models.contract_models import scopes_of
from mirrorlake.models.partition_states.cut_reads import ModelReading
from mirrorlake.models.partition_states.drop_expired import (
    gone_keys,
    uncovered_keys,
    uncovered_words,
)
from mirrorlake.models.partition_states.states import States
from mirrorlake.models.scope_values.comprehension import ScopeValues, kind_of, text_of
from mirrorlake.models.scope_values.query_text import bound_sql
from mirrorlake.models.show.stream_prices import StreamPrice, stream_prices
from mirrorlake.operations.publishers import PublicationStatus, other_statuses


@dataclass(frozen=True)
class ShownColumn:
    """One column of a model.

    Attributes:
        made_of: columns of mirrored tables, ``table.column``, through all models between.
        partition: whether the table is partitioned by it.
    """

    name: str
    type: str
    nullable: bool
    made_of: tuple[str, ...]
    partition: bool


@dataclass(frozen=True)
class ShownName:
    """One name of a scope."""

    name: str
    value: str
    type: str


@dataclass(frozen=True)
class ShownPartition:
    """One partition of a model, and what it is computed from.

    Attributes:
        readers: model → its partitions that read this one.
        state, why: of this partition: see `mirrorlake.models.partition_states.states`.
        states: model that it reads, or that reads it → how many of the partitions named here are
            computed, stale and missing.
        cut, cut_at: as of its record: see `mirrorlake.models.ledger.ModelPartition`.
    """

    key: str
    scope: tuple[ShownName, ...]
    inputs: tuple[Input, ...]
    readers: Mapping[str, tuple[str, ...]]
    sql: str
    state: str
    why: str
    states: Mapping[str, Mapping[str, int]]
    cut: str | None = None
    cut_at: datetime | None = None


@dataclass(frozen=True)
class ShownModel:
    """What `mirrorlake show` says of a model.

    Attributes:
        partitions: how many there are; ``first`` and ``last`` name two of them.
        states: how many of them are computed, stale and missing.
        partition: the one that was asked for.
        streams: of a stream view, what it reads of each mirrored table.
        retention: how long partitions are kept; ``gone``: how many it keeps no more; ``to_drop``:
            how many of these the table still has.
        published: by publisher, its newest load.
        cut, cut_at, why_main: how a run would read mirrored tables: see
            `mirrorlake.models.compute.model_run.ModelRun`.
    """

    name: str
    path: str
    description: str
    owner: str | None
    materialized: str
    fingerprint: str
    columns: tuple[ShownColumn, ...]
    partition_by: tuple[str, ...]
    partitions: int
    first: str
    last: str
    reads: tuple[str, ...]
    read_by: tuple[str, ...]
    warnings: tuple[str, ...]
    states: Mapping[str, int]
    partition: ShownPartition | None
    streams: tuple[StreamPrice, ...] = ()
    retention: str | None = None
    gone: int = 0
    to_drop: int = 0
    published: Mapping[str, PublicationStatus] = field(default_factory=dict[str, PublicationStatus])
    cut: str | None = None
    cut_at: datetime | None = None
    why_main: str = ""


def show_model(states: States, name: str, wanted: Mapping[str, str]) -> ShownModel:
    """A model, and one of its partitions if it has one or ``wanted`` names one.

    Args:
        wanted: name of a scope → its value, as it is shown.

    Raises:
        ModelError: there is no such model, or not one such partition.
        LakeError, LedgerError
    """
    project, catalogue = states.project, states.catalogue
    model = project.model(name)
    declared = model.declaration
    scope = _chosen(model, wanted)
    readers = project.readers.get(model.name, ())
    reading = states.readings.of(model)
    published = other_statuses(catalogue.config, states.ledger)
    return ShownModel(
        name=model.name,
        path=str(declared.path),
        description=declared.description,
        owner=declared.owner,
        materialized=declared.materialized,
        fingerprint=model.fingerprint,
        columns=tuple(_columns(project, model)),
        partition_by=declared.partition_by,
        partitions=len(model.scopes),
        first=model.key_of(model.scopes[0]),
        last=model.key_of(model.scopes[-1]),
        reads=model.reads,
        read_by=readers,
        warnings=(
            *unbounded(project, catalogue, model),
            *told_by_conditions(catalogue, model),
            *(f"{name} {words}" for words in uncovered_words(uncovered_keys(states.lake, model))),
        ),
        states=_counted(states, model, model.by_key),
        partition=_partition(states, model, scope) if scope is not None else None,
        streams=stream_prices(states.lake, states.ledger, catalogue, model),
        retention=declared.retention.text if declared.retention is not None else None,
        gone=len(model.gone),
        to_drop=len(gone_keys(states.lake, model)),
        published=published.get(f"{OF_MODELS}{model.name}", {}),
        cut=reading.cut_name,
        cut_at=reading.cut_at,
        why_main=reading.why,
    )


def _columns(project: Project, model: Model) -> Iterator[ShownColumn]:
    for one in model.fields:
        origins = stored_columns(project, model, one.name)
        yield ShownColumn(
            name=one.name,
            type=one.value.type,
            nullable=one.value.nullable,
            made_of=tuple(f"{origin.table}.{origin.column}" for origin in origins),
            partition=one.name in model.declaration.partition_by,
        )


def _chosen(model: Model, wanted: Mapping[str, str]) -> ScopeValues | None:
    if not wanted and model.partitioned:
        return None
    found = scopes_of(model, wanted)
    if len(found) > 1:
        missing = [name for name in model.declaration.scopes.names if name not in wanted]
        raise ModelError(
            f"{len(found):,} partitions of {model.name} are meant",
            next_step=f"Give {' and '.join(missing)}, too: {_as_arguments(model, found[0])}",
        )
    return found[0]


def _as_arguments(model: Model, scope: ScopeValues) -> str:
    return " ".join(f"{name}={text_of(scope[name])}" for name in model.declaration.partition_by)


def _counted(states: States, model: Model, keys: Iterable[str]) -> dict[str, int]:
    return dict(Counter(states.of(model, model.by_key[key]).word for key in keys))


def _partition(states: States, model: Model, scope: ScopeValues) -> ShownPartition:
    project = states.project
    inputs = states.read_by(model, scope)
    state = states.of(model, scope)
    readers = readers_of(project, states.catalogue, model, scope)
    return ShownPartition(
        key=model.key_of(scope),
        scope=tuple(
            ShownName(name, text_of(value), kind_of(value)) for name, value in scope.items()
        ),
        inputs=inputs,
        readers=readers,
        sql=_sql_of(model, scope, states.readings.of(model)),
        state=state.word,
        why=state.why,
        states={
            name: _counted(states, project.models[name], keys)
            for name, keys in (
                *((one.table, one.keys) for one in inputs if isinstance(one, ModelInput)),
                *readers.items(),
            )
        },
        cut=state.record.cut if state.record is not None else None,
        cut_at=state.record.cut_at if state.record is not None else None,
    )


def _sql_of(model: Model, scope: ScopeValues, reading: ModelReading) -> str:
    """The query of a partition; of a Python model that of each input, after its name."""
    sql, code, written = model.declaration.sql, model.declaration.python, reading.written(model)
    if code is None:
        return bound_sql(sql, model.bound, scope, instead=written)
    return "\n".join(
        f"-- {one.name}\n{bound_sql(sql, model.bound, scope, (one.start, one.end), written)};"
        for one in code.inputs
    )
