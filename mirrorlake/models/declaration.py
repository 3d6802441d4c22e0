"""A model's file: a YAML header between two lines of ``---``, and one SELECT.

    ---
    description: What each store sold, by day
    owner: data@example.com
    for:
      day: TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')
      store: [Paris, Detroit]
    ---
    SELECT product, SUM(amount) AS amount FROM shop_shop.sales
    WHERE sold_on = day AND city = store GROUP BY product

``models/<dataset>/<name>.sql`` is the model ``<dataset>.<name>``.

What belongs here: reading files. What doesn't: what a query means (`mirrorlake.models.binder`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from mirrorlake.config.fields import Duration, Section
from mirrorlake.config.problems import validation_problems
from mirrorlake.config.yaml_file import Problem, YamlFile
from mirrorlake.errors import ModelError
from mirrorlake.models.scopes import Binding, Scopes

Materialized = Literal["table", "view"]
MOST_BYTES = 2**20
FOLDER = "models"
"""Where the models are, beside the contract file."""
_FENCE = "---"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class HeaderSection(Section):
    """What the header of a model may say."""

    description: str = ""
    owner: str | None = None
    materialized: Materialized = "table"
    for_: Mapping[str, Any] = Field({}, alias="for")
    if_: str | None = Field(None, alias="if")
    partition_by: Annotated[tuple[str, ...] | None, BeforeValidator(_listed)] = None
    released: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    every: Duration | None = timedelta(minutes=15)


@dataclass(frozen=True)
class Declaration:
    """One model, as its file says it.

    Attributes:
        name: ``dataset.model``.
        sql: its query; ``sql_line``: the line of the file where it begins, from 1.
        scopes: what it is computed for.
        partition_by: the names of its scopes by which its table is partitioned.
        released: columns that are made of personal ones, and from which nobody can be told.
        every: how often at most the sensor requests what is missing or stale; None: a person does.
    """

    name: str
    path: Path
    sql: str
    sql_line: int
    scopes: Scopes
    partition_by: tuple[str, ...]
    materialized: Materialized = "table"
    description: str = ""
    owner: str | None = None
    released: tuple[str, ...] = ()
    every: timedelta | None = None

    def located(self, error: ModelError) -> ModelError:
        """An error in the query, with the line of the file."""
        if error.line is None:
            return ModelError(f"{self.path}: {error.message}", next_step=error.next_step)
        line = error.line + self.sql_line - 1
        words = f"{self.path}:{line}:{error.col}: {error.message}"
        return ModelError(words, place=(line, error.col or 1), next_step=error.next_step)


def read_declarations(folder: Path) -> list[Declaration]:
    """All models below a folder, by name.

    Raises:
        ModelError: a file can't be read, or says what can't be; two models have one name.
    """
    found: dict[str, Declaration] = {}
    for path in sorted(folder.rglob("*.sql")):
        if path.parent.parent != folder:
            raise ModelError(
                f"{path} is not where a model is",
                next_step=f"A model is a file {folder.name}/<dataset>/<name>.sql",
            )
        model = read_declaration(path)
        if model.name in found:
            raise ModelError(f"{path}: model {model.name} is in {found[model.name].path}, too")
        found[model.name] = model
    return [found[name] for name in sorted(found)]


def read_declaration(path: Path) -> Declaration:
    """The model that a file declares.

    Raises:
        ModelError: it can't be read, or says what can't be: all problems, one a line, each with
            file, line and column.
    """
    name = _name_of(path)
    header, sql, line = _parts(path)
    file = YamlFile(header)
    problems = list(file.problems)
    if not problems and not isinstance(file.root, dict | None):
        problems = [Problem(2, 1, "", "the header is a mapping (name: value)")]
    _raise(path, problems)
    try:
        said = HeaderSection.model_validate(file.root or {})
    except ValidationError as error:
        _raise(path, list(validation_problems(file, error, HeaderSection)))
        raise  # unreachable: a ValidationError holds at least one problem
    bindings = tuple(_bindings(path, file, said))
    names = tuple(one.name for one in bindings)
    by = said.partition_by if said.partition_by is not None else names
    for number, one in enumerate(by):
        words = "is not bound under `for`" if one not in names else "is there twice"
        if one not in names or one in by[:number]:
            _raise(path, [file.problem(("partition_by",), f"{one} {words}")])
    if not sql.strip():
        raise ModelError(f"{path}:{line}:1: there is no query")
    condition = file.problem(("if",), "").line
    return Declaration(
        name=name,
        path=path,
        sql=sql,
        sql_line=line,
        scopes=Scopes(bindings, said.if_, condition),
        partition_by=by,
        materialized=said.materialized,
        description=said.description,
        owner=said.owner,
        released=tuple(one.lower() for one in said.released),
        every=said.every,
    )


def _name_of(path: Path) -> str:
    parts = (path.parent.name, path.stem)
    for part in parts:
        if not _NAME.fullmatch(part):
            raise ModelError(
                f"{path}: {part!r} can't name a model",
                next_step="Use small letters, digits and _, a letter first: "
                "models/<dataset>/<name>.sql",
            )
    return ".".join(parts)


def _parts(path: Path) -> tuple[str, str, int]:
    """The header, the query, and the line at which the query begins."""
    try:
        # With a mark in front of it, as editors on Windows leave, or without.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} can't be read: {error}") from None
    if len(text) > MOST_BYTES:
        raise ModelError(f"{path} has more than {MOST_BYTES:,} characters")
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        return "", text, 1
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            # In place of the first line an empty one: places in the header are those of the file.
            return "\n" + "".join(lines[1:number]), "".join(lines[number + 1 :]), number + 2
    raise ModelError(f"{path}:1:1: the header has no end", next_step="Close it by a line of ---")


def _bindings(path: Path, file: YamlFile, said: HeaderSection) -> list[Binding]:
    found: list[Binding] = []
    problems: list[Problem] = []
    for name, values in said.for_.items():
        place = file.problem(("for", name), "", at_key=True)
        if not _NAME.fullmatch(name):
            words = "a name has small letters, digits and _, a letter first"
            problems.append(file.problem(("for", name), words, at_key=True))
        elif isinstance(values, str):
            found.append(Binding(name, values, place.line))
        elif isinstance(values, list) and values and all(isinstance(v, str) for v in values):
            found.append(Binding(name, tuple(str(v) for v in values), place.line))
        else:
            words = "a list of values or an expression is expected"
            problems.append(file.problem(("for", name), words))
    _raise(path, problems)
    return found


def _raise(path: Path, problems: list[Problem]) -> None:
    if not problems:
        return
    first = min(problems)
    raise ModelError(
        "\n".join(f"{path}:{one}" for one in sorted(problems)), place=(first.line, first.column)
    )
