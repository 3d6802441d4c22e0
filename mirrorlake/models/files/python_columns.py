"""The columns of a Python model beside the tables that it reads: what they are made of.

What belongs here: what other files say of a file. What doesn't: the file itself
(`mirrorlake.models.files.python_model`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ModelError
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.files.declared_columns import HeaderColumn
from mirrorlake.models.files.python_model import InputQuery, PythonCode
from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.binding.binder import bind
from mirrorlake.models.spark_sql.bound_query import Tables
from mirrorlake.models.spark_sql.columns import NamedValue, Origin, Typed, joined
from mirrorlake.models.spark_sql.parser import parse_query

_ANNOTATIONS = {
    "date": "date",
    "timestamp": "datetime",
    "string": "str",
    "int": "int",
    "bigint": "int",
    "boolean": "bool",
}
"""Type of a name of the scope → how its parameter is annotated; a decimal is a ``Decimal``."""


@dataclass(frozen=True)
class PythonFields:
    """The columns that a Python model says it gives.

    Attributes:
        columns: with what they are made of, as the file says.
        taken: all that its function is given.
        of_nothing: those of which the file says that they are made of nothing.
    """

    columns: tuple[NamedValue, ...]
    taken: frozenset[Origin]
    of_nothing: frozenset[str]


def python_fields(
    declaration: Declaration, code: PythonCode, tables: Tables, scope: Mapping[str, Typed]
) -> PythonFields:
    """The columns that a Python model says it gives, with what they are made of.

    Args:
        scope: the names under ``for``, in lower case, with their types.

    Raises:
        ModelError: an input has a column twice or without a name, a column is made of one that its
            input does not have, or a parameter has another type than its name.
    """
    path, known = declaration.path, declaration.functions.by_name
    given: dict[str, dict[str, Typed]] = {}
    for one in code.inputs:
        fields = bind(parse_query(one.sql), tables, scope, known).fields
        given[one.name] = _columns_of(path, code, one, fields)
    for one in code.function.parameters:
        kind = scope[one.name.lower()].type if one.name.lower() in scope else None
        wanted = "Decimal" if kind is None or types.is_decimal(kind) else _ANNOTATIONS[kind]
        if kind is not None and one.annotation != wanted:
            where = f"{path}:{one.place[0]}:{one.place[1]}"
            words = f"{where}: {one.name} is a {kind}: write {one.name}: {wanted}"
            raise ModelError(words, place=one.place)
    everything = joined(value for columns in given.values() for value in columns.values())
    columns = tuple(
        NamedValue(one.name, Typed(one.type, one.nullable, _origins(path, one, given, everything)))
        for one in code.columns
    )
    of_nothing = frozenset(one.name for one in code.columns if one.made_of == ())
    return PythonFields(columns, everything, of_nothing)


def _columns_of(
    path: Path, code: PythonCode, one: InputQuery, fields: Sequence[NamedValue]
) -> dict[str, Typed]:
    found: dict[str, Typed] = {}
    for number, column in enumerate(fields, 1):
        words = "" if column.name else f"column {number} has no name"
        if column.name.lower() in found:
            words = f"two columns are called {column.name}"
        if words:
            line, col = code.place((one.line, 1))
            raise ModelError(
                f"{path}:{line}:{col}: input {one.name}: {words}",
                place=(line, col),
                next_step="Write AS",
            )
        found[column.name.lower()] = column.value
    return found


def _origins(
    path: Path,
    column: HeaderColumn,
    given: Mapping[str, Mapping[str, Typed]],
    everything: frozenset[Origin],
) -> frozenset[Origin]:
    if column.made_of is None:
        return everything
    found: list[Typed] = []
    for text, (line, col) in column.made_of:
        name, _, of = text.partition(".")
        value = given[name].get(of.lower())
        if value is None:
            words = f"{path}:{line}:{col}: input {name} has no column {of}"
            raise ModelError(words + nearest(of, [*given[name]]), place=(line, col))
        found.append(value)
    return joined(found)
