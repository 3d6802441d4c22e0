"""The functions of a project: what ``models/functions.py`` declares for queries.

    \"\"\"---
    functions:
      plain_mail: {takes: [string], gives: string}
    ---\"\"\"

    def plain_mail(mail: str | None) -> str | None:
        return None if mail is None else mail.strip().lower()

Compiling runs none of it: types are those that the header declares.

What belongs here: reading the file. What doesn't: running it
(`mirrorlake.models.spark.session_functions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from mirrorlake.config.fields import Section, listed
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.errors import ModelError
from mirrorlake.models.files.model_files import Unread, read_text
from mirrorlake.models.files.python_source import python_parts, read_arities
from mirrorlake.models.files.yaml_errors import raise_problems, read_section
from mirrorlake.models.spark_sql import functions, types
from mirrorlake.models.spark_sql.functions import DeclaredFunction

FUNCTIONS_FILE = "functions.py"
"""In the folder of models."""
PLAIN = ("boolean", "int", "bigint", "double", "string", "binary", "date", "timestamp_ntz")
"""Types that a value of Python's has exactly, beside decimals."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class FunctionSection(Section):
    """What is declared of one function."""

    takes: Annotated[tuple[str, ...], BeforeValidator(listed)]
    gives: str


class FunctionsHeader(Section):
    """What the header of the file may say."""

    functions: dict[str, FunctionSection]


@dataclass(frozen=True)
class ProjectFunctions:
    """The functions of a project, or those of them that a query names.

    Attributes:
        source: of the file; ``digest``: of what it says but comments, docstrings and layout.
    """

    path: Path = Path(FUNCTIONS_FILE)
    source: str = field(default="", repr=False)
    digest: str = ""
    by_name: Mapping[str, DeclaredFunction] = field(default_factory=dict[str, DeclaredFunction])

    def named_in(self, sql: str) -> ProjectFunctions:
        """Those that a query may call. A text in it that looks like a call counts as one: then a
        model is stale once too often."""
        if not self.by_name:
            return NO_FUNCTIONS
        words = {one.lower() for one in re.findall(r"(\w+)`?\s*\(", sql)}
        found = {name: one for name, one in self.by_name.items() if name in words}
        return replace(self, by_name=found) if found else NO_FUNCTIONS

    def said(self) -> object:
        """All that a model depends on that calls them, as JSON can say it; None of none."""
        if not self.by_name:
            return None
        return [self.digest, [[one.shown, one.gives] for one in self.by_name.values()]]


NO_FUNCTIONS = ProjectFunctions()


def read_functions(folder: Path) -> tuple[ProjectFunctions, Unread]:
    """The functions of the models in a folder; where their file can't be read, none, and why."""
    path = folder / FUNCTIONS_FILE
    if not path.is_file():
        return NO_FUNCTIONS, Unread()
    try:
        return _read(path), Unread()
    except ModelError as error:
        return NO_FUNCTIONS, Unread((error,))


def _read(path: Path) -> ProjectFunctions:
    text = read_text(path)
    file = YamlFile(python_parts(path, text))
    no_mapping = Problem(2, 1, "", "the header is a mapping (functions: …)")
    said = read_section(path, file, FunctionsHeader, no_mapping)
    arities, digest = read_arities(path, text, path.parent.parent)
    raise_problems(path, list(_wrong(file, said, arities)))
    declared = {
        name: DeclaredFunction(name, one.takes, one.gives) for name, one in said.functions.items()
    }
    return ProjectFunctions(path, text, digest, declared)


def _wrong(
    file: YamlFile, said: FunctionsHeader, arities: Mapping[str, int | None]
) -> Iterator[Problem]:
    for name, one in said.functions.items():
        where, words = ("functions", name), ""
        if not _NAME.fullmatch(name):
            words = "a function's name has small letters, digits and _, a letter first"
        elif functions.is_known(name):
            words = "Spark has a function of this name: give it another one"
        elif name not in arities:
            words = f"the file has no function {name}"
        elif arities[name] != len(one.takes):
            words = f"the function {name} does not take {len(one.takes)} arguments by their places"
        if words:
            yield file.problem(where, words, at_key=True)
        for number, kind in enumerate(one.takes):
            if not _is_plain(kind):
                yield file.problem((*where, "takes", number), _no_plain(kind))
        if not _is_plain(one.gives):
            yield file.problem((*where, "gives"), _no_plain(one.gives))


def _is_plain(kind: str) -> bool:
    digits = types.digits_of(kind) if types.is_decimal(kind) else None
    return kind in PLAIN or (digits is not None and 0 <= digits[1] <= digits[0] <= 38)


def _no_plain(kind: str) -> str:
    return f"{kind!r} is not {', '.join(PLAIN)} or decimal(p,s)"
