"""``mirrorlake explain``: finds what is asked for, and prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.errors import ConfigError

if TYPE_CHECKING:
    from mirrorlake.cli.explain.explanations import Explanation


@click.command(short_help="Say what an error or an exit code means, and what to do.")
@click.argument("error", nargs=-1)
@show.json_option
def explain(error: Sequence[str], as_json: bool) -> None:
    """Say what ERROR means, what was left unchanged, what to do, and which page says more.

    ERROR is a class (SourceError), an exit code (9), or a message as it was printed, in quotes.
    Without it, every class and every exit code.
    """
    words = " ".join(error).strip()
    found = find(words) if words else _everything()
    if as_json:
        show.print_json([asdict(one) for one in found])
    elif words:
        for one in found:
            _print(one)
    else:
        _print_all(found)


def find(words: str) -> list[Explanation]:
    """What is said of words that a person typed or pasted, the most special first.

    Raises:
        ConfigError: nothing is; with the nearest names.
    """
    from mirrorlake.cli.explain.explanations import (
        classes,
        exit_codes,
        explain_class,
        explain_code,
        symptoms,
    )
    from mirrorlake.cli.explain.messages import find_error

    known = classes()
    named = {name.casefold(): name for name in known}
    if words.casefold() in named:
        return [explain_class(named[words.casefold()])]
    if words.isdigit():
        codes = exit_codes()
        if int(words) not in codes:
            raise ConfigError(
                f"no command ends with {words}",
                next_step=f"Exit codes: {', '.join(map(str, codes))}",
            )
        return [explain_code(int(words))]
    said = words.removeprefix("error:").strip()
    found = [one for one in symptoms() if one.of.casefold() in said.casefold()]
    of_code = find_error(said, known)
    if of_code is not None:
        # What is usually behind some words, where they are this error's.
        found = [one for one in found if issubclass(known[of_code], known[str(one.error)])]
        found.append(explain_class(of_code))
    if not found:
        near = get_close_matches(words.casefold(), named, n=3, cutoff=0.6)
        meant = ", ".join(named[one] for one in near)
        raise ConfigError(
            f"nothing is known of {words!r}",
            next_step=f"Did you mean {meant}?"
            if near
            else "`mirrorlake explain` lists every error; paste a message whole, in quotes",
        )
    return found


def _everything() -> list[Explanation]:
    from mirrorlake.cli.explain.explanations import (
        classes,
        exit_codes,
        explain_class,
        explain_code,
    )

    return [*map(explain_code, exit_codes()), *map(explain_class, classes())]


def _print(one: Explanation) -> None:
    code = "" if one.of.startswith("exit code") else f" (exit code {one.code})"
    of = one.of if one.error in (None, one.of) or not code else f"“{one.of}”: {one.error}"
    show.console.print(f"[bold]{escape(of)}[/]{code}", highlight=False, soft_wrap=True)
    for label, words in (
        ("means", one.means),
        ("unchanged", one.unchanged),
        ("do", one.do),
        ("kinds", ", ".join(one.kinds)),
        ("page", one.page),
    ):
        if words:
            line = f"  [dim]{label}:[/] {escape(words)}"
            show.console.print(line, highlight=False, soft_wrap=True)


def _print_all(found: Sequence[Explanation]) -> None:
    table = show.table("error", "code", "means…")
    for one in found:
        table.add_row(escape(one.of), str(one.code), escape(one.means))
    show.console.print(table)
    words = "What to do: `mirrorlake explain NAME`, or a code, or a message in quotes"
    show.console.print(words, highlight=False, soft_wrap=True)
