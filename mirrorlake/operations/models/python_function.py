"""A Python model's function is run: the file as it was compiled, with its inputs as DataFrames.

The text that is run is the one that the fingerprint is of, whatever the file says meanwhile. What
the file defines is pickled by value: workers need not have it.

What belongs here: the author's code. What doesn't: what its file declares
(`mirrorlake.models.python_model`), and what is checked of its rows
(`mirrorlake.operations.models.python_checks`).

Source: cloudpickle, "Overriding pickle's serialization mechanism for importable constructs".
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from mirrorlake.destinations.iceberg.spark_errors import spark_errors
from mirrorlake.errors import MirrorlakeError, ModelError
from mirrorlake.models.binding import bound_sql
from mirrorlake.models.declaration import Declaration
from mirrorlake.models.mentions import TextSpan
from mirrorlake.models.model import Model
from mirrorlake.models.python_model import PythonCode
from mirrorlake.models.scopes import ScopeValues
from mirrorlake.operations.models.lake_names import within_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOADING = threading.Lock()
_LOADED: dict[str, tuple[str, ModuleType]] = {}
"""Module → the text that it was made of, and itself."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_KIND = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
_OF_CODE = (ImportError, NameError, AttributeError)
"""What these say is about code, never about a row."""


def code_of(declaration: Declaration) -> PythonCode:
    """The code of a model that is one in Python."""
    if declaration.python is None:
        raise TypeError(f"{declaration.name} is no Python model")
    return declaration.python


def load_module(declaration: Declaration) -> ModuleType:
    """The module that a model's file is; run at the first call, and again when its text changed.

    Raises:
        ModelError: it can't be run, with the line that failed.
    """
    from pyspark import cloudpickle

    code = code_of(declaration)
    name = f"mirrorlake_model_{declaration.name.replace('.', '__')}"
    with _LOADING:
        text, module = _LOADED.get(name, ("", None))
        if module is None or text != code.source:
            module = ModuleType(name)
            module.__file__ = str(declaration.path)
            # Dataclasses and pandera look a class's module up by its name.
            sys.modules[name] = module
            with function_errors(declaration):
                exec(compile(code.source, module.__file__, "exec"), module.__dict__)  # noqa: S102 - what a model is
            cloudpickle.register_pickle_by_value(module)
            _LOADED[name] = code.source, module
        return module


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

    declared, code = model.declaration, code_of(model.declaration)
    given: dict[str, Any] = dict(scope)
    with spark_errors(model.name), within_lake(spark, catalog):
        for one in code.inputs:
            part = (one.start, one.end)
            text = bound_sql(declared.sql, model.bound, scope, part, instead)
            given[one.name] = spark.sql(text)
    function = getattr(load_module(declared), declared.path.stem)
    with function_errors(declared):
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


@contextmanager
def function_errors(declaration: Declaration) -> Iterator[None]:
    """Say of what a model's code raises, here or on a worker, where and of what kind it is. What it
    says is left out: it may hold values of rows.

    Raises:
        ModelError: the code failed.
    """
    try:
        yield
    except MirrorlakeError:
        raise
    except Exception as error:
        found = _failed_on_worker(error, str(declaration.path)) or _failed_here(error, declaration)
        if found is None:
            raise
        line, kind = found
        raise ModelError(
            f"{declaration.path}:{line}:1: {declaration.path.stem} failed: {kind}",
            place=(line, 1),
            next_step="Nothing of this partition is visible. What was said may hold values of rows,"
            " and is left out: call the function by hand to see it",
        ) from None


def _failed_on_worker(error: Exception, path: str) -> tuple[int, str] | None:
    """Spark's message has the worker's traceback as a text."""
    text = str(error)
    frames = [one for one in _FRAME.finditer(text) if one[1] == path]
    if not frames:
        return None
    kind = _KIND.search(text, frames[-1].end())
    return int(frames[-1][2]), kind[1] if kind else type(error).__name__


def _failed_here(error: Exception, declaration: Declaration) -> tuple[int, str] | None:
    from pyspark.errors import AnalysisException

    line = _line_in(error.__traceback__, str(declaration.path))
    if line is None:
        return None
    said = str(error).strip().splitlines()
    told = isinstance(error, (*_OF_CODE, AnalysisException)) and said
    return line, f"{type(error).__name__}: {said[0][:300]}" if told else type(error).__name__


def _line_in(trace: TracebackType | None, path: str) -> int | None:
    found = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
