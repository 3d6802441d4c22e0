"""Models that compiled, and all of a folder beside one another.

What belongs here: what is known of them. What doesn't: how it is found
(`mirrorlake.models.compile.project`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ModelError
from mirrorlake.models.cache.model import KeptModel
from mirrorlake.models.cache.scope_rules import RuleBook
from mirrorlake.models.external_sources.tables import ExternalTable
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.files.expectations import Expectation
from mirrorlake.models.scope_values.comprehension import ScopeValues, text_of
from mirrorlake.models.scope_values.partition_index import PartitionIndex
from mirrorlake.models.spark_sql.bound_query import BoundQuery
from mirrorlake.models.spark_sql.columns import NamedValue, Relation, Typed, relation_of

BoundModel = tuple[exp.Expr, BoundQuery]


@dataclass(frozen=True)
class Model:
    """One model that compiled.

    Attributes:
        types: the names of its scope, with their types.
        now: what ``CURRENT_DATE`` was for its scopes.
        scopes: all that it is computed for, in the order of its bindings.
        gone: those of partitions that its retention does not keep.
        fingerprint: changes with what the query says, with its columns, and with all models above
            it; comments and layout change nothing.
        kept: what was found of its file, and its columns.
        externals: the tables that it reads and that are made elsewhere, by name.
        expectations: of the rows of each partition.
        bind: its query, parsed and bound.
    """

    declaration: Declaration
    types: Mapping[str, Typed]
    fingerprint: str
    now: datetime
    scopes: Sequence[ScopeValues] = field(repr=False, compare=False)
    kept: KeptModel = field(repr=False)
    bind: Callable[[], BoundModel] = field(repr=False, compare=False)
    gone: Sequence[ScopeValues] = field(default=(), repr=False, compare=False)
    expectations: tuple[Expectation, ...] = ()
    externals: Mapping[str, ExternalTable] = field(default_factory=dict[str, ExternalTable])

    @property
    def fields(self) -> tuple[NamedValue, ...]:
        """The columns of its table: the query's, then those of its partitions."""
        return self.kept.fields

    @property
    def reads(self) -> tuple[str, ...]:
        """The tables that its query names, in lower case, in the order in which they are named."""
        return self.kept.reads

    @property
    def rules(self) -> RuleBook:
        return self.kept.rules

    @cached_property
    def _bound(self) -> BoundModel:
        return self.bind()

    @property
    def query(self) -> exp.Expr:
        return self._bound[0]

    @property
    def bound(self) -> BoundQuery:
        return self._bound[1]

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def partitioned(self) -> bool:
        return bool(self.declaration.partition_by)

    @property
    def relation(self) -> Relation:
        """Its columns for a query that reads it."""
        fields = ((one.name, one.value.type, one.value.nullable) for one in self.fields)
        return relation_of(self.name, fields)

    @cached_property
    def by_key(self) -> Mapping[str, ScopeValues]:
        """Its scopes, by the names of their partitions."""
        return {self.key_of(scope): scope for scope in self.scopes}

    @cached_property
    def index(self) -> PartitionIndex:
        """Its partitions, by their values."""
        return PartitionIndex.of(self.scopes, self.declaration.partition_by, self.key_of)

    @cached_property
    def gone_index(self) -> PartitionIndex:
        """The partitions that its retention does not keep, by their values."""
        return PartitionIndex.of(self.gone, self.declaration.partition_by, self.key_of)

    def key_of(self, scope: ScopeValues) -> str:
        """A partition's name: ``day=2024-05-01/store=Paris``; empty of a model without
        partitions."""
        return "/".join(f"{n}={text_of(scope[n])}" for n in self.declaration.partition_by)


@dataclass(frozen=True)
class Project:
    """The models of a folder.

    Attributes:
        models: by name, each after those that it reads.
        externals: tables that are made elsewhere, by name.
        problems: what is wrong with others.
        readers: table → the models that read it.
        unfinished: each name of which there is a file and no model or table, with the reason.
        blocked: of each model that reads one of these: that it does, and the reason.
    """

    models: Mapping[str, Model]
    problems: tuple[ModelError, ...] = ()
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    externals: Mapping[str, ExternalTable] = field(default_factory=dict[str, ExternalTable])
    unfinished: Mapping[str, ModelError] = field(default_factory=dict[str, ModelError])
    blocked: tuple[ModelError, ...] = ()

    @property
    def errors(self) -> tuple[ModelError, ...]:
        """All for which models did not compile."""
        return (*self.problems, *self.blocked)

    def model(self, name: str) -> Model:
        """A model by its name.

        Raises:
            ModelError: there is none, or it did not compile.
        """
        found = self.models.get(name.lower())
        if found is not None:
            return found
        if name.lower() in self.unfinished:
            raise self._why_not(name.lower())
        if name.lower() in self.externals:
            raise ModelError(
                f"{name} is made elsewhere: {self.externals[name.lower()].declaration.path}",
                next_step="It is read, and not computed here",
            )
        raise ModelError(
            f"there is no model {name}{nearest(name, self.models)}",
            next_step="A model is a file models/<dataset>/<name>.sql, or .py, beside the contract "
            "file",
        )

    def _why_not(self, name: str) -> ModelError:
        """Why a model did not compile; of what is wrong with others, how much there is."""
        own = self.unfinished[name]
        others = len(self.errors) - 1
        more = f"`mirrorlake plan` names {others:,} more error{'s' * (others > 1)}"
        steps = [step for step in (own.next_step, more if others else "") if step]
        return ModelError(own.message, next_step=". ".join(steps))

    def raise_problems(self) -> None:
        """
        Raises:
            ModelError: not all models compiled: all that is wrong, one a line.
        """
        if self.errors:
            raise ModelError.joined(self.errors)
