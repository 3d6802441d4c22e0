"""pandera schemas as expectations: a schema of ``pandera.pyspark`` in a Python file of the project.

pandera reports what it finds in ``.pandera.errors`` and raises nothing; a check of its own that
ends in an exception is among them as if rows had failed it. Here that is an error, and no verdict.

What belongs here: loading schemas, and reading what pandera says. What doesn't: what follows from
it (`mirrorlake.models.checks.before_publishing`).

Source: pandera manual, "Data validation with PySpark SQL".
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorlake.config.fields import nearest
from mirrorlake.errors import LakeError, ModelError
from mirrorlake.models.compile.model import Model
from mirrorlake.models.spark.python_function import load_module
from mirrorlake.runtime.extras import lacking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VERDICTS = {
    *("COLUMN_NOT_IN_SCHEMA", "COLUMN_NOT_IN_DATAFRAME", "DATAFRAME_CHECK", "DUPLICATES"),
    *("SERIES_CONTAINS_NULLS", "SERIES_CONTAINS_DUPLICATES", "WRONG_DATATYPE", "WRONG_FIELD_NAME"),
}
"""What pandera says of rows that it has looked at; anything else is a failure to look."""
_OF_TYPES = {"COLUMN_NOT_IN_SCHEMA", "COLUMN_NOT_IN_DATAFRAME", "WRONG_DATATYPE"}
_CHANGING = {
    "coerce": "it would look at other values than are written",
    "add_missing_columns": "it would look at other columns than are written",
    "ordered": "pandera looks at the columns of Spark in no order",
}


def is_own(model: Model, text: str) -> bool:
    """Whether a schema is in a Python model's own file."""
    name = text.partition(":")[0]
    return model.declaration.python is not None and name == model.declaration.path.name


def load_schema(model: Model, text: str) -> Any:
    """The schema that ``file.py:Name`` names, of a model.

    Raises:
        ModelError: there is no such one, or it would change the rows that it looks at.
        MachineError: pandera is not installed.
    """
    try:
        from pandera.pyspark import DataFrameModel, DataFrameSchema
    except ImportError as error:
        what = f"`pandera` in the header of model {model.name}"
        raise lacking(what, "pandera.pyspark", "models") from error
    folder = model.declaration.path.parent
    name, _, wanted = text.partition(":")
    own = is_own(model, text)
    module = load_module(model.declaration) if own else _module(folder / name)
    found = getattr(module, wanted, None)
    if isinstance(found, type) and issubclass(found, DataFrameModel):
        found = found.to_schema()
    if not isinstance(found, DataFrameSchema):
        near = nearest(wanted, [one for one in vars(module) if not one.startswith("_")])
        raise ModelError(f"there is no schema of pandera.pyspark {wanted} in {folder / name}{near}")
    for setting, words in _CHANGING.items():
        if getattr(found, setting, False):
            raise ModelError(f"{text} has `{setting}`: {words}", next_step="Leave it out")
    columns: dict[str, Any] = found.columns
    if found.strict == "filter" or any(one.coerce for one in columns.values()):
        what = "strict='filter'" if found.strict == "filter" else "a column with `coerce`"
        raise ModelError(f"{text} has {what}: {_CHANGING['coerce']}", next_step="Leave it out")
    return found


def _module(path: Path) -> types.ModuleType:
    """The module of a file as it is now."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error}") from None
    digest = hashlib.sha256(str(path.absolute()).encode() + b"\0" + content).hexdigest()[:16]
    name = f"mirrorlake_schemas_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - a file that ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    # Annotations are looked up there.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ModelError(f"{path} can't be imported: {type(error).__name__}: {error}") from error
    return module


def broken_by(schema: Any, rows: DataFrame) -> tuple[str, ...]:
    """What a schema says that rows break: columns and checks, never values.

    Raises:
        LakeError: a check could not be carried out.
    """
    from pandera.config import ValidationDepth, config_context

    # Whatever pandera's environment variables say: rows that nobody looked at are not good.
    with config_context(validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA):
        found: dict[str, dict[str, list[dict[str, Any]]]] = schema.validate(rows).pandera.errors
    reasons = {reason: cases for kind in found.values() for reason, cases in kind.items()}
    # A check of values is meant for those of the right type: it may well end in an exception else.
    wrong_types = {reason for reason in reasons if reason in _OF_TYPES}
    for reason, cases in reasons.items():
        if reason not in _VERDICTS and not wrong_types:
            raise _not_carried_out(cases[0])
    chosen = wrong_types or reasons.keys()
    words = (_words(case) for reason in chosen for case in reasons[reason])
    return tuple(dict.fromkeys(words))


def _words(case: dict[str, Any]) -> str:
    return f"{case['column']}: {case['check']}" if case.get("column") else str(case["check"])


def _not_carried_out(case: dict[str, Any]) -> LakeError:
    """The error for a check that ended in an exception. What it says may hold values."""
    kind = re.search(r"\b([A-Z]\w*(?:Error|Exception))\b", str(case.get("error")))
    return LakeError(
        f"the check {_words(case)} ended in {kind[1] if kind else 'an exception'}",
        next_step="Nothing is known of the rows",
    )
