"""The functions of a project, registered with a session of Spark's.

What a function returns is looked at before Spark sees it: of a value that has another type than the
declared one Spark makes NULL, without a word.

What belongs here: running the project's functions. What doesn't: what is declared of them
(`mirrorlake.models.files.functions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from functools import wraps
from typing import TYPE_CHECKING, Any

from mirrorlake.errors import ModelError
from mirrorlake.models.files.functions import ProjectFunctions
from mirrorlake.models.spark.python_code import load_code
from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.functions import DeclaredFunction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASSES: dict[str, type] = {
    "boolean": bool,
    "int": int,
    "bigint": int,
    "double": float,
    "string": str,
    "binary": bytes,
    "date": date,
    "timestamp_ntz": datetime,
}
_BITS = {"int": 31, "bigint": 63}
_WRONG_RESULT = re.compile(r"TypeError: <<(.*?)>>")


def register_functions(spark: SparkSession, functions: ProjectFunctions) -> None:
    """Let a session's queries call these functions.

    Raises:
        ModelError: their file can't be run, with the line that failed.
    """
    if not functions.by_name:
        return
    module = load_code("mirrorlake_functions", functions.path, functions.source)
    for name, one in functions.by_name.items():
        spark.udf.register(name, checked(getattr(module, name), one), one.gives)


def checked(function: Callable[..., Any], declared: DeclaredFunction) -> Callable[..., Any]:
    """A function whose results are of the declared type, or it fails."""
    name, gives = declared.name, declared.gives

    @wraps(function)
    def call(*arguments: Any) -> Any:
        found = function(*arguments)
        if found is not None and not is_of(found, gives):
            kind = type(found).__name__
            raise TypeError(f"<<{name} gave a {kind} that is no {gives}, as which it is declared>>")
        return found

    return call


@contextmanager
def result_errors(functions: ProjectFunctions) -> Iterator[None]:
    """Say of a result that is not of its type whose it is: found in what Spark made of it.

    Raises:
        ModelError: a function gave such a result.
    """
    try:
        yield
    except Exception as error:
        found = _WRONG_RESULT.search(str(error))
        if found is None or not functions.by_name:
            raise
        raise ModelError(
            f"{functions.path}: {found[1]}",
            next_step="Nothing of this partition is visible: let the function and `gives` say the "
            "same",
        ) from error


def is_of(value: object, kind: str) -> bool:
    """Whether a value of Python's is exactly one of a type.

    >>> is_of(1, "int"), is_of(2**31, "int"), is_of(True, "int"), is_of(1, "double")
    (True, False, False, False)
    """
    digits = types.digits_of(kind) if types.is_decimal(kind) else None
    if digits is not None:
        return isinstance(value, Decimal) and _fits(value, *digits)
    if type(value) is not _CLASSES[kind]:
        return False
    if isinstance(value, datetime):
        return value.tzinfo is None
    bits = _BITS.get(kind)
    return bits is None or (isinstance(value, int) and -(2**bits) <= value < 2**bits)


def _fits(value: Decimal, precision: int, scale: int) -> bool:
    """Whether a decimal has at most ``precision`` digits, ``scale`` of them behind the point."""
    if not value.is_finite():
        return False
    _, digits, exponent = value.normalize().as_tuple()
    places = -exponent if isinstance(exponent, int) else 0
    return places <= scale and len(digits) - places <= precision - scale
