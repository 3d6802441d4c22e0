"""The SQL models beside a contract file as assets: one asset each, its partitions its scopes.

Nothing is asked of the lake when a location loads: keys, partitions and what is read are known from
the files, and which partitions of an input a partition reads is what was found when the models were
compiled last (`dagster_mirrorlake.models.partition_mappings`); before that, all.

What belongs here: what a model is called, its partitions, and what it reads. What doesn't: running
it (`dagster_mirrorlake.models.steps`).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import pairwise

import dagster as dg
from sqlglot import exp

from dagster_mirrorlake.models.partition_mappings import Side
from dagster_mirrorlake.names import Names
from mirrorlake.config import Config
from mirrorlake.errors import ModelError
from mirrorlake.models.cache.files import KeptModels, kept_folder
from mirrorlake.models.cache.model import KeptModel
from mirrorlake.models.cache.unchanged_models import known_models
from mirrorlake.models.compile.partition_times import kept_and_gone
from mirrorlake.models.files.declaration import Declaration, model_files, read_declaration
from mirrorlake.models.files.functions import read_functions
from mirrorlake.models.files.model_files import FOLDER
from mirrorlake.models.scope_values.comprehension import ScopeValues, text_of
from mirrorlake.models.scope_values.on_demand import DayRange, ScopeProduct
from mirrorlake.models.scope_values.partition_index import PartitionIndex
from mirrorlake.models.spark_sql.constants.values import Constant
from mirrorlake.models.spark_sql.parser import table_name
from mirrorlake.serving.mirrored_places import mirrored_places

logger = logging.getLogger("mirrorlake.models")

_TODAY = "CURRENT_DATE"


@dataclass(frozen=True)
class ModelAsset:
    """One model as Dagster has it.

    Attributes:
        reads: the tables and models that its query names, in lower case.
        scopes: of all partitions when the location loaded.
        kept: what was found of its query, where that was kept and its files are as they were.
    """

    declaration: Declaration
    names: Names
    reads: tuple[str, ...]
    scopes: Sequence[ScopeValues]
    kept: KeptModel | None = None

    @property
    def key(self) -> dg.AssetKey:
        """``dataset/name``; of a mirror with a name ``mirror/dataset/name``."""
        return model_key(self.declaration.name, self.names)

    @cached_property
    def partitions(self) -> dg.PartitionsDefinition[str] | None:
        """One dimension for each name by which its table is partitioned, where Dagster has such;
        else one of the partitions' own names."""
        by = self.declaration.partition_by
        if not by:
            return None
        values = {name: self._values(name) for name in by}
        if len(by) == 1:
            return _dimension(values[by[0]], self._expression(by[0]))
        product = 1
        for one in values.values():
            product *= len(one)
        if len(by) == 2 and product == len(self.scopes):
            return dg.MultiPartitionsDefinition(
                {name: _dimension(values[name], self._expression(name)) for name in by}
            )
        return dg.StaticPartitionsDefinition([self.text_of(scope) for scope in self.scopes])

    def _values(self, name: str) -> Sequence[Constant]:
        """Those of one of its names, each once."""
        if isinstance(self.scopes, ScopeProduct):
            return self.scopes.columns[name]
        return list(dict.fromkeys(scope[name] for scope in self.scopes))

    @cached_property
    def side(self) -> Side | None:
        """Its partitions, as assets above and below it see them; None without any."""
        if self.partitions is None:
            return None
        by = self.declaration.partition_by
        names = by if len(by) == 1 or self._is_grid else ()
        return Side(self.partitions, names, lambda: PartitionIndex.of(self.scopes, by, self.key_of))

    @property
    def _is_grid(self) -> bool:
        return isinstance(self.partitions, dg.MultiPartitionsDefinition)

    def _expression(self, name: str) -> str:
        found = next(one for one in self.declaration.scopes.bindings if one.name == name)
        return found.values if isinstance(found.values, str) else ""

    def text_of(self, scope: Mapping[str, Constant]) -> str:
        """A partition as a text, where its names are no dimensions of Dagster's."""
        by = self.declaration.partition_by
        # A comma separates keys in backfills, and "..." ranges.
        return "|".join(f"{name}={text_of(scope[name])}".replace(",", "%2C") for name in by)

    def key_of(self, scope: Mapping[str, Constant]) -> str:
        """Dagster's partition key of a scope."""
        by = self.declaration.partition_by
        if isinstance(self.partitions, dg.MultiPartitionsDefinition):
            return dg.MultiPartitionKey({name: text_of(scope[name]) for name in by})
        return text_of(scope[by[0]]) if len(by) == 1 else self.text_of(scope)

    @cached_property
    def by_name(self) -> Mapping[str, str]:
        """The engine's name of each partition → Dagster's key; '' stands for a model without."""
        if self.partitions is None:
            return {"": ""}
        by = self.declaration.partition_by
        return {
            "/".join(f"{name}={text_of(scope[name])}" for name in by): self.key_of(scope)
            for scope in self.scopes
        }

    @property
    def spec(self) -> dg.AssetSpec:
        """Without what it reads: see `dagster_mirrorlake.models.assets`."""
        declared, code = self.declaration, self.declaration.python
        line = 1 if code is None else code.function.line
        reference = dg.LocalFileCodeReference(
            file_path=str(declared.path.absolute()), line_number=line, label=declared.name
        )
        name, language, text = ("query", "sql", declared.sql)
        if code is not None:
            name, language, text = ("code", "python", code.source)
        return dg.AssetSpec(
            self.key,
            group_name=declared.name.split(".")[0],
            description=declared.description or None,
            owners=self.owners,
            kinds={language, "view" if declared.is_view else "iceberg"},
            partitions_def=self.partitions,
            metadata={
                "dagster/table_name": declared.name,
                "dagster/code_references": dg.CodeReferencesMetadataValue(
                    code_references=[reference]
                ),
                name: dg.MetadataValue.md(f"````{language}\n{text.strip()}\n````"),
            },
        )

    @property
    def owners(self) -> list[str]:
        """As Dagster takes them."""
        return asset_owners(self.declaration.owner)

    @property
    def checks(self) -> list[dg.AssetCheckSpec]:
        """What its header expects of its rows: what is under ``warn`` blocks nothing."""
        return [
            dg.AssetCheckSpec(
                one.name,
                asset=self.key,
                description=one.words,
                blocking=one.severity == "error",
                partitions_def=self.partitions,
            )
            for one in self.declaration.expectations
        ]


def model_key(name: str, names: Names) -> dg.AssetKey:
    """The asset of a model, or of a table beside it: ``dataset/name``; of a mirror with a name
    ``mirror/dataset/name``."""
    return dg.AssetKey([*([names.mirror] if names.mirror else []), *name.split(".")])


def asset_owners(owner: str | None) -> list[str]:
    """Dagster takes addresses and teams."""
    return [owner] if owner is not None and ("@" in owner or owner.startswith("team:")) else []


def _dimension(values: Sequence[Constant], expression: str) -> dg.PartitionsDefinition[str]:
    """Days up to today grow with the calendar; days, and months, that are over are a calendar's,
    too; anything else is a list."""
    parts = [part.strip() for part in expression.removesuffix(")").split(",")]
    grows = len(parts) == 3 and parts[1].upper() in (_TODAY, f"{_TODAY}()") and "P1D" in parts[2]
    first, last = values[0], values[-1]
    if type(first) is date and type(last) is date:
        over = last < datetime.now(UTC).date().replace(day=1) - timedelta(days=1)
        if _follow(values, _next_day) and (grows or over):
            end = None if grows else _next_day(last).isoformat()
            return dg.DailyPartitionsDefinition(start_date=first.isoformat(), end_date=end)
        if over and first.day == 1 and len(values) > 1 and _follow(values, _next_month):
            end = _next_month(last).isoformat()
            return dg.MonthlyPartitionsDefinition(start_date=first.isoformat(), end_date=end)
    return dg.StaticPartitionsDefinition([text_of(value) for value in values])


def _follow(values: Sequence[Constant], following: Callable[[date], date]) -> bool:
    """Whether values are days that follow one another."""
    if isinstance(values, DayRange) and values.numbers.step == 1:
        return following is _next_day or len(values) == 1
    days = [value for value in values if type(value) is date]
    return len(days) == len(values) and all(following(a) == b for a, b in pairwise(days))


def _next_day(day: date) -> date:
    return day + timedelta(days=1)


def _next_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)


def mirror_models(config: Config, names: Names) -> Sequence[ModelAsset]:
    """The models beside a contract file. What can't be read is said in the log, and is no reason
    for a mirror not to load: `mirrorlake plan` fails on it."""
    declarations: dict[str, Declaration] = {}
    folder, mirrored = config.path.parent / FOLDER, mirrored_places(config)
    functions, unread = read_functions(folder)
    for problem in unread.problems:
        logger.warning("Functions were left out: %s", problem)
    for path in model_files(folder):
        try:
            one = read_declaration(path, folder, functions)
        except ModelError as error:
            logger.warning("A model was left out: %s", error)
            continue
        if one.name in mirrored:
            logger.warning("A model was left out: %s: %s is a mirrored table", path, one.name)
            continue
        first = declarations.setdefault(one.name, one)
        if first is not one:
            logger.warning("%s was left out: %s is model %s, too", path, first.path, one.name)
    now = datetime.now(UTC)
    known = known_models(KeptModels(kept_folder(config.path)), [*declarations.values()], now)
    found: list[ModelAsset] = []
    for one in declarations.values():
        try:
            kept = known.get(one.name)
            reads = kept.reads if kept is not None else _tables_in(one)
            scopes = one.scopes.all(now)
            if one.retention is not None:
                scopes, _ = kept_and_gone(one, scopes, one.scopes.types(scopes), now)
            found.append(ModelAsset(one, names, reads, scopes, kept))
        except ModelError as error:
            logger.warning("The SQL model %s was left out: %s", one.name, one.located(error))
    return found


def _tables_in(declaration: Declaration) -> tuple[str, ...]:
    tables = map(table_name, declaration.parsed().find_all(exp.Table))
    return tuple(dict.fromkeys(tables))
