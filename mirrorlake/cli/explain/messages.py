"""Which error a message is of: found in the code that raises it, so that no list of messages has to
be kept.

The code is read only here, when a person asks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from mirrorlake.errors import MirrorlakeError

_FILES: Final = 12
"""So many files are parsed: those that have most of what the message says."""
_ENOUGH: Final = 12
"""So many characters of a message have to be the code's own; fewer say too little."""


@dataclass(frozen=True)
class Raised:
    """A message as the code has it: ``parts`` are its own words, in order, between what is filled
    in."""

    error: str
    parts: tuple[str, ...]

    @property
    def own(self) -> int:
        """How many of its characters are the code's own."""
        return sum(map(len, self.parts))


def find_error(message: str, known: Mapping[str, type[MirrorlakeError]]) -> str | None:
    """The class of the error that has this message; None where no code says anything like it.

    Args:
        message: as it was printed, with or without what is filled in, next step and all.
        known: the classes of errors by their names.
    """
    said = " ".join(message.split())
    found = (
        one
        for text in _likely(said)
        for one in _raised(text, known)
        if one.own >= _ENOUGH and _fits(one, said)
    )
    best = max(found, key=lambda one: one.own, default=None)
    return best.error if best is not None else None


def _likely(said: str) -> list[str]:
    """The texts of the files that say most of the message, two and three words at once."""
    words = said.split()
    runs = {" ".join(words[at : at + size]) for size in (2, 3) for at in range(len(words))}
    ranked = sorted(
        ((sum(len(run.split()) - 1 for run in runs if run in text), text) for text in _sources()),
        key=lambda one: one[0],
        reverse=True,
    )
    return [text for score, text in ranked[:_FILES] if score]


@cache
def _sources() -> tuple[str, ...]:
    found: list[str] = []
    waiting: list[Traversable] = [files("mirrorlake")]
    while waiting:
        for one in waiting.pop().iterdir():
            if one.is_dir():
                waiting.append(one)
            elif one.name.endswith(".py"):
                found.append(one.read_text("utf-8"))
    return tuple(found)


def _raised(text: str, known: Mapping[str, type[MirrorlakeError]]) -> Iterator[Raised]:
    """The messages with which a module makes errors."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in known:
            yield from (Raised(name, parts) for parts in _parts(node.args[0]))


def _parts(words: ast.expr) -> Iterator[tuple[str, ...]]:
    if isinstance(words, ast.IfExp):
        yield from _parts(words.body)
        yield from _parts(words.orelse)
    elif isinstance(words, ast.Call) and words.args and isinstance(words.args[0], ast.List):
        yield from _parts(words.args[0].elts[0])  # lines that are joined
    elif isinstance(words, ast.JoinedStr):
        yield tuple(str(v.value) for v in words.values if isinstance(v, ast.Constant))
    elif isinstance(words, ast.Constant) and isinstance(words.value, str):
        yield (words.value,)


def _fits(one: Raised, said: str) -> bool:
    """Whether a message has these parts in this order."""
    at = 0
    for part in one.parts:
        words = " ".join(part.split())
        found = said.find(words, at)
        if found < 0:
            return False
        at = found + len(words)
    return True
