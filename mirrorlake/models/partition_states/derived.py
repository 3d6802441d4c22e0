"""Which partitions of models derive from something: from days of a mirrored table, or from
partitions of a model.

What belongs here: following dependencies downwards, and choosing among what is found. What doesn't:
what one partition reads (`mirrorlake.models.compile.dependencies`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ModelError
from mirrorlake.models.compile.dependencies import Input, MirrorInput, ModelInput, inputs_of
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.contract_models import scopes_of
from mirrorlake.models.scope_values.comprehension import ScopeValues, text_of
from mirrorlake.serving.catalogue import Catalogue

_CHOICES = ("all", "direct", "none")
"""How what derives from something is chosen, but for a list of models."""


@dataclass(frozen=True)
class Origins:
    """What others derive from.

    Attributes:
        tables: a mirrored table's names in the lake, in lower case: deduped and clean.
        days: the first and the last of them, both included; None: without an end there.
        model: in place of a table; ``keys``: its partitions.
    """

    tables: frozenset[str] = frozenset()
    days: tuple[date | None, date | None] = (None, None)
    model: str | None = None
    keys: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.model or " and ".join(sorted(self.tables))


def derived(
    project: Project, catalogue: Catalogue, origins: Origins, choice: str
) -> dict[str, tuple[str, ...]]:
    """Model → its partitions that derive, in the order in which they are to be computed. Views have
    no rows of their own: what reads one reads what it shows. What a snapshot holds is what was
    there then: nothing of it derives from what is found to be wrong now.

    Args:
        choice: ``all``; ``direct``, what reads the origins themselves; ``none``; or names of
            models, separated by commas.

    Raises:
        ModelError: not all models compile, so that it can't be said what derives; a chosen model is
            not there, or does not derive from it.
    """
    if choice == "none":
        return {}
    project.raise_problems()
    known: dict[str, frozenset[str]] = {}
    if origins.model is not None:
        known[origins.model] = origins.keys
    found: dict[str, tuple[str, ...]] = {}
    for model in project.models.values():
        keys = (
            ()
            if model.name == origins.model or model.declaration.is_snapshot
            else _reading(project, catalogue, origins, model, known)
        )
        if not keys:
            continue
        view = model.declaration.is_view
        if view or choice != "direct":
            known[model.name] = frozenset(keys)
        if not view:
            found[model.name] = keys
    if choice in _CHOICES:
        return found
    return _named(project, found, origins, [name.strip().lower() for name in choice.split(",")])


def _named(
    project: Project,
    all_of: Mapping[str, tuple[str, ...]],
    origins: Origins,
    names: Sequence[str],
) -> dict[str, tuple[str, ...]]:
    for name in names:
        if name not in all_of:
            where = f"no partition of {name} derives from {origins.name}"
            if name not in project.models:
                where = f"there is no model {name}{nearest(name, project.models)}"
            derive = f"These do: {', '.join(all_of)}" if all_of else "No model's does"
            raise ModelError(where, next_step=derive)
    return {name: keys for name, keys in all_of.items() if name in names}


def _reading(
    project: Project,
    catalogue: Catalogue,
    origins: Origins,
    model: Model,
    known: Mapping[str, frozenset[str]],
) -> tuple[str, ...]:
    """The partitions of a model that read an origin, or one of the known partitions."""
    if not set(model.bound.reads) & (origins.tables | known.keys()):
        return ()
    return tuple(
        key
        for key, scope in model.by_key.items()
        if any(
            _touches(one, origins, known, catalogue)
            for one in inputs_of(project, catalogue, model, scope)
        )
    )


def _touches(
    one: Input, origins: Origins, keys: Mapping[str, frozenset[str]], catalogue: Catalogue
) -> bool:
    if isinstance(one, ModelInput):
        return not keys.get(one.table, frozenset()).isdisjoint(one.keys)
    assert isinstance(one, MirrorInput)  # noqa: S101
    if one.table not in origins.tables or not one.days:
        return False
    # Days of another column than the contract's say nothing of those that were declared.
    table = catalogue.table(one.table)
    same = table is not None and one.column == table.day
    return not same or any(_overlap(period, origins.days) for period in one.days)


def _overlap(one: tuple[date | None, date | None], other: tuple[date | None, date | None]) -> bool:
    return (one[0] or date.min) <= (other[1] or date.max) and (other[0] or date.min) <= (
        one[1] or date.max
    )


def chosen_keys(
    model: Model, wanted: Mapping[str, str], first: date | None, last: date | None
) -> tuple[str, ...]:
    """The partitions of a model that have some values, of some days.

    Args:
        first, last: both included; None: without an end there.

    Raises:
        ModelError: there are none, or the model has not one name of days.
    """
    scopes: Collection[ScopeValues] = scopes_of(model, wanted)
    if first is not None or last is not None:
        name = _day_name(model)
        scopes = [
            scope
            for scope in scopes
            if (first or date.min) <= _day(scope, name) <= (last or date.max)
        ]
        if not scopes:
            raise ModelError(
                f"{model.name} has no partition of these days",
                next_step=f"They go from {model.key_of(model.scopes[0])} to "
                f"{model.key_of(model.scopes[-1])}",
            )
    return tuple(dict.fromkeys(model.key_of(scope) for scope in scopes))


def models_with_days(project: Project, first: date | None, last: date | None) -> tuple[str, ...]:
    """The models that have partitions of some days, in order; all of them where no day is meant."""

    def has_some(model: Model) -> bool:
        try:
            return bool(chosen_keys(model, {}, first, last))
        except ModelError:
            return False

    return tuple(name for name, model in project.models.items() if has_some(model))


def _day_name(model: Model) -> str:
    names = [
        name
        for name in model.declaration.partition_by
        if model.types[name].type in ("date", "timestamp")
    ]
    if len(names) != 1:
        raise ModelError(
            f"{model.name} has {len(names) or 'no'} partition names that are days",
            next_step="Give NAME=VALUE",
        )
    return names[0]


def _day(scope: ScopeValues, name: str) -> date:
    return date.fromisoformat(text_of(scope[name])[:10])
