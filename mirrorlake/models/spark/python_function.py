"""A Python model's function is run, with its inputs as DataFrames.

What belongs here: the author's function. What doesn't: its module
(`mirrorlake.models.spark.python_code`), and what its file declares
(`mirrorlake.models.files.python_model`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import ModelError
from mirrorlake.models.compile.model import Model
from mirrorlake.models.compile.table_mentions import TextSpan
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.files.python_model import PythonCode
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.models.scope_values.query_text import bound_sql
from mirrorlake.models.spark.default_catalog import within_lake
from mirrorlake.models.spark.python_code import code_errors, load_code

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _code_of(declaration: Declaration) -> PythonCode:
    """The code of a model that is one in Python."""
    if declaration.python is None:
        raise TypeError(f"{declaration.name} is no Python model")
    return declaration.python


def load_module(declaration: Declaration) -> ModuleType:
    """The module that a model's file is; run at the first call, and again when its text changed.

    Raises:
        ModelError: it can't be run, with the line that failed.
    """
    name = f"mirrorlake_model_{declaration.name.replace('.', '__')}"
    return load_code(name, declaration.path, _code_of(declaration).source)


def function_rows(
    spark: SparkSession,
    model: Model,
    scope: ScopeValues,
    instead: Mapping[TextSpan, str],
    catalog: str,
) -> DataFrame:
    """What a model's function gives for one partition: exactly the columns that its header
    declares.

    Args:
        instead: what is written in the queries of its inputs, where.
        catalog: where its tables are.

    Raises:
        ModelError: it failed, with the line; or it gives other columns.
        LakeError: an input can't be read.
    """
    from pyspark.sql import DataFrame

    declared, code = model.declaration, _code_of(model.declaration)
    given: dict[str, Any] = dict(scope)
    with spark_errors(model.name), within_lake(spark, catalog):
        for one in code.inputs:
            part = (one.start, one.end)
            text = bound_sql(declared.sql, model.bound, scope, part, instead)
            given[one.name] = spark.sql(text)
    function = getattr(load_module(declared), declared.path.stem)
    with code_errors(declared.path):
        rows = function(**{one.name: given[one.name] for one in code.function.parameters})
        found = [(str(n), str(k)) for n, k in rows.dtypes] if isinstance(rows, DataFrame) else None
    where = f"{declared.path}:{code.function.line}:1: {declared.path.stem}"
    if found is None:
        raise ModelError(f"{where} returned {type(rows).__name__}, and is to return a DataFrame")
    wanted = [(one.name, one.type) for one in code.columns]
    if found != wanted:
        raise ModelError(
            f"{where} gives other columns than its header declares: {_other(found, wanted)}",
            next_step="Nothing was written: let the function and `columns` say the same",
        )
    return rows


def _other(found: list[tuple[str, str]], wanted: list[tuple[str, str]]) -> str:
    names, kinds = [name for name, _ in found], dict(found)
    lacking = [f"{name} is missing" for name, _ in wanted if name not in kinds]
    extra = [f"{name} is not declared" for name in names if name not in dict(wanted)]
    typed = [
        f"{name} is {kinds[name]}, and is declared {kind}"
        for name, kind in wanted
        if kinds.get(name, kind) != kind
    ]
    twice = [f"{name} is there twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    words = [*lacking, *extra, *typed, *twice]
    return ", ".join(words) or f"in this order: {', '.join(names)}"
