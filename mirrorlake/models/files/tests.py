"""Tests of a model as they are written: its query gives these rows of those.

In the model's header, or in a file beside it, ``models/<dataset>/<name>.test.yaml``, alike:

    tests:
      paris_on_one_day:
        for: {sold_day: 2024-02-29, shop: Paris}
        inputs:
          shop_shop.orders:
            - {product: tea, amount: 1.10, ordered_at: 2024-02-29 10:00:00, store: Paris}
        expected:
          - {product: tea, amount: 1.10, sales: 1}

What belongs here: reading tests. What doesn't: whether they fit the model
(`mirrorlake.models.testing.bound_tests`), and running them (`mirrorlake.models.testing.run_tests`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mirrorlake.config.fields import Section, listed, nearest
from mirrorlake.config.yaml.yaml_file import Path as YamlPath
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.errors import ModelError
from mirrorlake.models.files.yaml_errors import joined, read_section

SUFFIX = ".test.yaml"
"""How the name of a file with tests ends."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")
WrittenRows = tuple[Mapping[str, Any], ...]


class ModelTestSection(Section):
    """One test of a model."""

    description: str = ""
    for_: Mapping[str, str] = Field({}, alias="for")
    """The partition: values of the names under the model's ``for``."""
    now: str | None = None
    """What ``CURRENT_DATE`` is under the model's ``for``; by default, today."""
    inputs: Mapping[str, WrittenRows] = {}
    """Table → its rows: column → cell. Every table that the query names."""
    columns: Mapping[str, Mapping[str, str]] = {}
    """Table → column → type, of tables that were never loaded."""
    expected: WrittenRows
    """The rows that the query gives."""
    compare: Annotated[tuple[str, ...] | None, BeforeValidator(listed)] = None
    """The columns that are compared; by default, all that the query gives."""
    ordered: bool = False
    """Whether the order of the rows is compared, too."""


class ModelTestsSection(Section):
    """A file of tests."""

    tests: dict[str, ModelTestSection]


@dataclass(frozen=True)
class ModelTest:
    """One test, as a file says it.

    Attributes:
        model: ``dataset.name``.
        path: the file; ``file``: its YAML, for places.
    """

    model: str
    name: str
    path: Path
    said: ModelTestSection
    file: YamlFile = field(compare=False, repr=False)

    @property
    def place(self) -> str:
        """``file:line`` of its name."""
        return f"{self.path}:{self.problem((), '', at_key=True).line}"

    def problem(self, inside: YamlPath, message: str, *, at_key: bool = False) -> Problem:
        """What is wrong at a place in it."""
        return self.file.problem(("tests", self.name, *inside), message, at_key=at_key)


def tests_of(
    model: str, path: Path, file: YamlFile, said: Mapping[str, ModelTestSection]
) -> list[ModelTest]:
    """The tests of a file of YAML that was read."""
    return [ModelTest(model, name, path, one, file) for name, one in said.items()]


def read_test_files(
    folder: Path, models: Mapping[str, Sequence[ModelTest]]
) -> tuple[list[ModelTest], list[ModelError]]:
    """The tests of the files below a folder, and what is wrong with others.

    Args:
        models: model → the tests in its header.
    """
    found: list[ModelTest] = []
    problems: list[ModelError] = []
    for path in sorted([*folder.rglob(f"*{SUFFIX}"), *folder.rglob("*.test.yml")]):
        try:
            tests = _read(folder, path, models)
        except ModelError as error:
            problems.append(error)
            continue
        found += tests
    for name, header in models.items():
        every = [*header, *(one for one in found if one.model == name)]
        problems += _wrong_names(every)
    return found, problems


def _read(folder: Path, path: Path, models: Mapping[str, Sequence[ModelTest]]) -> list[ModelTest]:
    dataset, stem = path.parent.name, path.name.rpartition(".test.")[0]
    model = f"{dataset}.{stem}"
    if path.suffix == ".yml" or path.parent.parent != folder:
        raise ModelError(
            f"{path} is not where tests are",
            next_step=f"Call it {folder.name}/<dataset>/<name>{SUFFIX}, beside the model",
        )
    if model not in models:
        raise ModelError(
            f"{path}: there is no model {model}{nearest(model, list(models))}",
            next_step=f"Its tests are in <name>{SUFFIX} beside <name>.sql",
        )
    try:
        file = YamlFile(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} can't be read: {error}") from None
    no_mapping = Problem(1, 1, "", "a mapping is expected, with `tests`")
    said = read_section(path, file, ModelTestsSection, no_mapping)
    return tests_of(model, path, file, said.tests)


def _wrong_names(tests: Sequence[ModelTest]) -> Iterator[ModelError]:
    seen: dict[str, ModelTest] = {}
    for one in tests:
        words = ""
        if not _NAME.fullmatch(one.name):
            words = "a name has small letters, digits and _, a letter first"
        elif one.name in seen:
            words = f"a test of this name is in {seen[one.name].place}"
        seen.setdefault(one.name, one)
        if words:
            yield joined(one.path, [one.problem((), words, at_key=True)])
