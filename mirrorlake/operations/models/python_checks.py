"""What a Python model's rows must be before anybody sees them: staged, they are read again.

What belongs here: what a file declares of its rows. What doesn't: columns and types, which are
compared before a row is made (`mirrorlake.operations.models.python_function`).

Source: pandera documentation, "Data Validation with Pyspark SQL".
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.errors import MachineError, ModelError, SchemaError
from mirrorlake.models.model import Model
from mirrorlake.models.python_model import PythonCode
from mirrorlake.operations.models.python_function import function_errors, load_module

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEXT = "Nothing of it is visible: correct the function, or what its header declares"


def check_rows(model: Model, staged: DataFrame) -> None:
    """See that staged rows are what the model's file declares of them; of a SQL model nothing is
    declared.

    Raises:
        SchemaError: a column has NULL that may not, or pandera refuses rows; no value is said.
        ModelError: the rows could not be looked at.
        MachineError: pandera is not installed.
    """
    code = model.declaration.python
    if code is None:
        return
    rows = staged.select(*(as_sql_identifier(one.name) for one in code.columns))
    wrong = [*_nulls(code, rows), *(_refused(model, code.pandera, rows) if code.pandera else ())]
    if wrong:
        raise SchemaError(f"{'; '.join(wrong)}", table=model.name, next_step=_NEXT)


def _nulls(code: PythonCode, rows: DataFrame) -> Iterator[str]:
    needed = [one.name for one in code.columns if not one.nullable]
    if not needed:
        return
    counts = rows.selectExpr(*(f"count_if({as_sql_identifier(name)} IS NULL)" for name in needed))
    for name, count in zip(needed, counts.collect()[0], strict=True):
        if count:
            yield f"{name} is declared without NULL, and is NULL in {count:,} rows"


def _refused(model: Model, schema: str, rows: DataFrame) -> Iterator[str]:
    """What pandera refuses: column and check. What it says beside that may hold values."""
    try:
        importlib.import_module("pandera.pyspark")
        from pandera.config import ValidationDepth, config_context
    except ImportError:
        raise MachineError(
            f"{model.name} names a pandera schema, and pandera is not installed",
            next_step="pip install 'pandera[pyspark]'",
        ) from None
    found: Any = getattr(load_module(model.declaration), schema)
    # Whatever pandera's environment variables say: rows that nobody looked at are not good.
    depth = ValidationDepth.SCHEMA_AND_DATA
    with (
        function_errors(model.declaration),
        config_context(validation_enabled=True, validation_depth=depth),
    ):
        try:
            report = found.validate(rows).pandera.errors
        except Exception as error:  # noqa: BLE001 - pandera raises what it likes
            raise _not_looked(model, schema, type(error).__name__) from None
    if not isinstance(report, Mapping):
        raise _not_looked(model, schema, "it gave no report")
    for kinds in report.values():
        for kind, cases in kinds.items():
            for case in cases:
                if kind == "CHECK_ERROR":
                    raise _not_looked(model, schema, f"its check {case['check']} failed")
                yield f"{schema} refuses column {case['column']}: {case['check']}"


def _not_looked(model: Model, schema: str, why: str) -> ModelError:
    return ModelError(
        f"{model.declaration.path}: rows could not be checked by {schema}: {why}",
        next_step="Nothing of them is visible: it is to be a schema of pandera.pyspark",
    )
