"""What a model's header expects of its rows before they are published.

    expect:
      not_null: [product, amount]
      unique: [product, store]
      accepted_values: {store: [Paris, Detroit]}
      rows: {min: 1}
      where: amount >= 0
    warn:
      rows: {max: 100000}

Everything is expected of one partition by itself. NULL is a value like any other: it is equal to
itself, no condition is true of it, and it is accepted only where ``~`` is listed.

What belongs here: what is expected. What doesn't: whether a model has such columns
(`mirrorlake.models.compile.bound_expectations`), and looking at rows
(`mirrorlake.models.checks.expectation_results`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field

from mirrorlake.config.fields import Section, listed, nearest
from mirrorlake.config.yaml.yaml_file import Path as YamlPath
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.models.files.declared_columns import HeaderColumn

ExpectationKind: TypeAlias = Literal[
    "not_null", "unique", "accepted_values", "rows", "where", "pandera"
]
ExpectationSeverity: TypeAlias = Literal["error", "warn"]
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_MOST_SHOWN = 5


def _keys(value: object) -> object:
    """One key, or a list of keys."""
    found = listed(value)
    if isinstance(found, list) and all(isinstance(one, str) for one in cast("list[Any]", found)):
        return [found] if found else []
    return found


def _named(value: object) -> object:
    return {"where": value} if isinstance(value, str) else value


class RowsSection(Section):
    """How many rows a partition has, both included."""

    min: int | None = Field(None, ge=0)
    max: int | None = Field(None, ge=0)


class ExpectSection(Section):
    """What is expected of each partition's rows."""

    not_null: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    unique: Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_keys)] = ()
    accepted_values: Mapping[str, tuple[str | None, ...]] = {}
    rows: RowsSection | None = None
    where: Annotated[Mapping[str, str], BeforeValidator(_named)] = {}
    pandera: str | None = None


@dataclass(frozen=True)
class Expectation:
    """One thing that is expected of the rows of each partition.

    Attributes:
        name: its own in the model: ``not_null_product``, ``rows_min``.
        at: where it stands in the file; of what has no column or value of its own.
        columns: the columns that it is about; ``values``: those that are accepted.
        text: a condition of Spark's SQL, or where a pandera schema is: ``file.py:Name``; in a
            Python model's header ``Name`` alone is one of its own file.
        failing: the condition in Spark's SQL of rows that are not as expected, once it is bound to
            a model's columns; empty where no single row can say so.
    """

    name: str
    kind: ExpectationKind
    severity: ExpectationSeverity
    at: YamlPath
    columns: tuple[str, ...] = ()
    values: tuple[str | None, ...] = ()
    least: int | None = None
    most: int | None = None
    text: str = ""
    failing: str = ""

    @property
    def words(self) -> str:
        """What is expected, in a few words."""
        if self.kind == "not_null":
            return f"{self.columns[0]} is not NULL"
        if self.kind == "unique":
            return f"no two rows have the same {', '.join(self.columns)}"
        if self.kind == "accepted_values":
            listed = ["NULL" if one is None else one for one in self.values]
            more = f" … ({len(listed):,})" if len(listed) > _MOST_SHOWN else ""
            return f"{self.columns[0]} is one of {', '.join(listed[:_MOST_SHOWN])}{more}"
        if self.kind == "rows":
            word, count = ("least", self.least) if self.least is not None else ("most", self.most)
            return f"at {word} {count:,} row{'' if count == 1 else 's'}"
        return self.text if self.kind == "where" else f"pandera schema {self.text}"

    @property
    def terms(self) -> str:
        """A text that is another one if something else is expected."""
        columns = [one.lower() for one in self.columns]
        said = (self.kind, columns, self.values, self.least, self.most, self.text)
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


# --- as the header says it ------------------------------------------------------------------------


def read_expectations(
    file: YamlFile, sections: Mapping[ExpectationSeverity, tuple[str, ExpectSection]]
) -> tuple[list[Expectation], list[Problem]]:
    """What sections of a header expect, and what is wrong with them whatever the columns are.

    Args:
        sections: severity → the section's key, and the section.
    """
    problems: list[Problem] = []
    found: dict[str, Expectation] = {}
    for severity, (key, section) in sections.items():
        for one in _of_section(file, key, section, severity, problems):
            same = next((e for e in found.values() if e.terms == one.terms), None)
            if same is not None or (one.kind in ("rows", "where", "pandera") and one.name in found):
                there = _show_at((same or found[one.name]).at)
                problems.append(file.problem(one.at, f"{one.name} is under {there}, too"))
                continue
            name, number = one.name, 2
            while name in found:  # columns `a b` and `a_b`
                name, number = f"{one.name}_{number}", number + 1
            found[name] = replace(one, name=name)
    return list(found.values()), problems


def declared_not_null(
    columns: Iterable[HeaderColumn], expected: Sequence[Expectation]
) -> list[Expectation]:
    """What the declared columns of a Python model add to what is expected: those without NULL."""
    names = {one.name for one in expected}
    terms = {one.terms for one in expected}
    found: list[Expectation] = []
    for one in columns:
        name = re.sub(r"[^A-Za-z0-9_]+", "_", f"not_null_{one.name}")
        made = Expectation(name, "not_null", "error", ("columns", one.name), columns=(one.name,))
        if one.nullable or made.terms in terms:
            continue
        while made.name in names:
            made = replace(made, name=f"{made.name}_")
        names.add(made.name)
        found.append(made)
    return found


def own_schemas(
    file: YamlFile, expected: Sequence[Expectation], path: str, names: Collection[str]
) -> tuple[list[Expectation], list[Problem]]:
    """What is expected of a Python model, where a pandera schema without a file is one of its own;
    and what is wrong with those.

    Args:
        path: the name of the model's file; ``names``: what it defines at its top level.
    """
    found: list[Expectation] = []
    problems: list[Problem] = []
    for one in expected:
        own = one.text.removeprefix(f"{path}:")
        if one.kind != "pandera" or ":" in own:
            found.append(one)
        elif own in names:
            found.append(replace(one, text=f"{path}:{own}"))
        else:
            words = f"the file defines no {own} at its top level{nearest(own, [*names])}"
            problems.append(file.problem(one.at, words))
    return found, problems


def _show_at(place: YamlPath) -> str:
    """The section in which something stands."""
    return f"`{place[0]}`"


def _of_section(
    file: YamlFile,
    key: str,
    section: ExpectSection,
    severity: ExpectationSeverity,
    problems: list[Problem],
) -> Iterator[Expectation]:
    def made(kind: ExpectationKind, name: str, *place: str | int, **said: Any) -> Expectation:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name)
        return Expectation(plain, kind, severity, (key, kind, *place), **said)

    for number, column in enumerate(section.not_null):
        place = () if _is_text(file, key, "not_null") else (number,)
        yield made("not_null", f"not_null_{column}", *place, columns=(column,))
    for number, columns in enumerate(section.unique):
        place = (number,) if len(section.unique) > 1 else ()
        yield made("unique", f"unique_{'_'.join(columns)}", *place, columns=columns)
    for column, values in section.accepted_values.items():
        said = {"columns": (column,), "values": values}
        yield made("accepted_values", f"accepted_values_{column}", column, **said)
    rows = section.rows or RowsSection(min=None, max=None)
    if rows.min is not None:
        yield made("rows", "rows_min", "min", least=rows.min)
    if rows.max is not None:
        yield made("rows", "rows_max", "max", most=rows.max)
    for name, text in section.where.items():
        place = () if _is_text(file, key, "where") else (name,)
        yield made("where", name, *place, text=text)
    if section.pandera is not None:
        yield made("pandera", "pandera", text=section.pandera)
    problems += _wrong_words(file, key, section)


def _wrong_words(file: YamlFile, key: str, section: ExpectSection) -> Iterator[Problem]:
    """What is wrong with a section by itself."""
    rows = section.rows
    if rows is not None and rows.min is not None and rows.max is not None and rows.min > rows.max:
        yield file.problem((key, "rows"), f"min {rows.min:,} is more than max {rows.max:,}")
    for number, columns in enumerate(section.unique):
        if not columns:
            yield file.problem((key, "unique", number), "is empty: name the columns of a key")
    for name in section.where:
        if not _NAME.fullmatch(name):
            words = "a name has small letters, digits and _, a letter first"
            yield file.problem((key, "where", name), words, at_key=True)


def _is_text(file: YamlFile, *path: str) -> bool:
    """Whether a value of the file is written as one text."""
    found: Any = file.root
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return isinstance(found, str)
