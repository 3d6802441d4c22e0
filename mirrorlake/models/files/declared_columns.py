"""Columns that a header declares, of tables that no query gives.

What belongs here: names and types as they are written. What doesn't: whether a table has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator

from mirrorlake.config.fields import Section, listed
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.errors import ModelError
from mirrorlake.models.files.header_places import TextPlace
from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.casts import written_type
from mirrorlake.models.spark_sql.parser import parse_expression

_KEPT = {"boolean", "int", "bigint", "float", "double", "string", "binary", *types.MOMENTS}


def _of_type(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


class ColumnSection(Section):
    """A column; a text alone is its type."""

    type: str
    nullable: bool = True
    made_of: Annotated[tuple[str, ...] | None, BeforeValidator(listed)] = None


HeaderType = Annotated[ColumnSection, BeforeValidator(_of_type)]


@dataclass(frozen=True)
class HeaderColumn:
    """A column as a header declares it.

    Attributes:
        type: as Spark writes it.
        made_of: ``input.column``, each with its place; None: of every column of every input.
    """

    name: str
    type: str
    nullable: bool
    made_of: tuple[tuple[str, TextPlace], ...] | None
    place: TextPlace


def declared_columns(
    file: YamlFile, columns: Mapping[str, ColumnSection]
) -> Iterator[HeaderColumn]:
    """The columns of a header, with their places."""
    for name, one in columns.items():
        made_of = one.made_of
        places = (
            None
            if made_of is None
            else tuple(
                (text, place_of(file, ("columns", name, "made_of", number)))
                for number, text in enumerate(made_of)
            )
        )
        place = place_of(file, ("columns", name), at_key=True)
        yield HeaderColumn(name, one.type, one.nullable, places, place)


def wrong_columns(file: YamlFile, columns: Mapping[str, ColumnSection]) -> Iterator[Problem]:
    """What is wrong with the names and types of a header's columns."""
    if not columns:
        yield file.problem(("columns",), "is empty: a table has columns")
    seen: set[str] = set()
    for name, one in columns.items():
        if not name or name.lower() in seen:
            words = f"two columns are called {name}" if name else "a column has a name"
            yield file.problem(("columns", name), words, at_key=True)
        seen.add(name.lower())
        words = _wrong_type(one.type)
        if words:
            yield file.problem(_place_of_type(file, name), words)


def _place_of_type(file: YamlFile, name: str) -> tuple[str, ...]:
    columns = file.root.get("columns") if isinstance(file.root, dict) else None
    written = columns.get(name) if isinstance(columns, dict) else None
    return ("columns", name) if isinstance(written, str) else ("columns", name, "type")


def _wrong_type(text: str) -> str:
    """What is wrong with a type; nothing of one as Spark writes it."""
    try:
        kind = written_type(parse_expression(f"CAST(NULL AS {text})").args["to"])
    except (ModelError, KeyError):
        return f"{text!r} is no type of Spark's"
    if not is_kept(kind):
        return f"no table keeps {kind} as it is: use another type"
    same = kind == text.replace(", ", ",").replace(": ", ":")
    return "" if same else f"Spark writes this type {kind}"


def is_kept(kind: str) -> bool:
    """Whether a lake table keeps values of a type as that type.

    >>> is_kept("array<decimal(5,2)>"), is_kept("tinyint")
    (True, False)
    """
    if kind.startswith("array<"):
        return is_kept(kind[6:-1])
    pair, fields = types.map_of(kind), types.fields_of(kind)
    if pair is not None or fields is not None:
        return all(map(is_kept, pair or (fields or {}).values()))
    return kind in _KEPT or types.is_decimal(kind)


def place_of(file: YamlFile, path: tuple[str | int, ...], *, at_key: bool = False) -> TextPlace:
    """Where a part of a header stands."""
    found = file.problem(path, "", at_key=at_key)
    return found.line, found.column
