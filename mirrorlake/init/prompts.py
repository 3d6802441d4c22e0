"""What the screens of `mirrorlake init` share: questions, answers, and patterns of names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.errors import ConfigError

T = TypeVar("T")
_SCREENS: Final = ("Server", "Databases", "Tables", "Personal data", "File", "Summary")
_NUMBERS: Final = re.compile(r"(\d+)(?:-(\d+))?")


def title(number: int) -> None:
    """The heading of a screen, counted from 1."""
    words = f"{number} of {len(_SCREENS)}  {_SCREENS[number - 1]}"
    show.console.print()
    show.console.rule(f"[bold]{words}[/]", align="left", characters="-")


def say(words: str, style: str = "") -> None:
    """A line for the person, whatever is in it."""
    text = escape(words)
    show.console.print(f"[{style}]{text}[/]" if style else text, highlight=False)


def ask(question: str, default: str = "", *, hidden: bool = False) -> str:
    """An answer; ``default`` where there is none."""
    return str(click.prompt(question, default=default, show_default=False, hide_input=hidden))


def until_right(question: str, take: Callable[[str], T]) -> T:
    """Ask until an answer can be taken; what is wrong with one is said."""
    while True:
        try:
            return take(ask(question).strip())
        except ConfigError as error:
            say(str(error), "red")


def size_words(size: int | None) -> str:
    """A number of bytes; ``-`` of one that nobody knows."""
    if size is None:
        return "-"
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.0f} kB"


def literal(name: str) -> str:
    """A pattern that matches this name alone."""
    return re.sub(r"([*?\[])", r"[\1]", name)


def chosen_of(answer: str, items: Sequence[T], matches: Callable[[T, str], bool]) -> set[int]:
    """The places, from 0, of what an answer names: ``1,3-5`` or patterns.

    Raises:
        ConfigError: a part of it names nothing.
    """
    found = set[int]()
    for part in re.split(r"[,\s]+", answer.strip(", ")):
        numbers = _NUMBERS.fullmatch(part)
        if numbers:
            first, last = int(numbers[1]), int(numbers[2] or numbers[1])
            some = set(range(first - 1, last)) & set(range(len(items)))
            wrong = not 1 <= first <= last <= len(items)
        else:
            some = {n for n, item in enumerate(items) if matches(item, part)}
            wrong = not some
        if wrong:
            raise ConfigError(
                f"{part!r} names nothing here", next_step="Numbers stand before the names"
            )
        found |= some
    return found
