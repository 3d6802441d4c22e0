"""The files of models: what they are called, and their texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from mirrorlake.errors import ModelError

FOLDER = "models"
"""Where the models are, beside the contract file."""
MOST_BYTES = 2**20
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class _Declared(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...


_AnyDeclared = TypeVar("_AnyDeclared", bound=_Declared)


@dataclass(frozen=True)
class Unread:
    """The files that can't be read, or say what can't be: they hide no other.

    Attributes:
        problems: what is wrong with each, with file and place.
        why: the names that they would have given, as far as they can be told, each with its
            problem.
    """

    problems: tuple[ModelError, ...] = ()
    why: Mapping[str, ModelError] = field(default_factory=dict[str, ModelError])

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.why)

    def __add__(self, other: Unread) -> Unread:
        return Unread(self.problems + other.problems, {**other.why, **self.why})

    def raise_problems(self) -> None:
        """
        Raises:
            ModelError: there are such files: all that is wrong, one a line.
        """
        if self.problems:
            raise ModelError.joined(self.problems)


def read_each(
    paths: Iterable[Path], read: Callable[[Path], _AnyDeclared]
) -> tuple[list[_AnyDeclared], Unread]:
    """What files declare, by name, and the files that can't be read. Of two files of one name
    neither is chosen."""
    found: dict[str, _AnyDeclared] = {}
    problems: list[ModelError] = []
    why: dict[str, ModelError] = {}
    for path in paths:
        try:
            one = read(path)
        except ModelError as error:
            problems.append(error)
            why.setdefault(f"{path.parent.name}.{path.stem}", error)
            continue
        first = found.setdefault(one.name, one)
        if first is not one:
            problems.append(ModelError(f"{path}: {one.name} is in {first.path}, too"))
            why.setdefault(one.name, problems[-1])
    declared = [found[name] for name in sorted(found.keys() - why.keys())]
    return declared, Unread(tuple(problems), why)


def model_name(path: Path) -> str:
    """``dataset.name`` of a file.

    Raises:
        ModelError: it has letters that no table's name has.
    """
    parts = (path.parent.name, path.stem)
    for part in parts:
        if not _NAME.fullmatch(part):
            raise ModelError(
                f"{path}: {part!r} can't name a model",
                next_step="Use small letters, digits and _, a letter first: "
                f"models/<dataset>/<name>{path.suffix}",
            )
    return ".".join(parts)


def read_text(path: Path) -> str:
    """A file's text.

    Raises:
        ModelError: it can't be read, or is too long.
    """
    try:
        # With a mark in front of it, as editors on Windows leave, or without.
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        words = f"{path} can't be read: byte {error.start + 1:,} is no UTF-8"
        raise ModelError(words, next_step="Save it as UTF-8") from None
    if len(text) > MOST_BYTES:
        raise ModelError(f"{path} has more than {MOST_BYTES:,} characters")
    return text
