"""The explanations, read from their file."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from mirrorlake import cli
from mirrorlake.errors import MirrorlakeError


@dataclass(frozen=True)
class Explanation:
    """What an error, an exit code or words of a message mean.

    Attributes:
        of: the error's class, ``exit code 9``, or the words.
        error: the error's class; null of an exit code that no class has.
        code: the exit code.
        means: what happened.
        unchanged: what was left as it was; '' where nothing was to change.
        do: what to do.
        page: the page of the documentation that says more.
        kinds: classes of errors that are of this kind, each with an explanation of its own.
    """

    of: str
    error: str | None
    code: int
    means: str
    unchanged: str
    do: str
    page: str
    kinds: tuple[str, ...] = ()


@cache
def _texts() -> Mapping[str, Any]:
    text = files("mirrorlake.cli.explain").joinpath("explanations.yaml").read_text("utf-8")
    return yaml.safe_load(text)


def classes() -> dict[str, type[MirrorlakeError]]:
    """Every class of errors by its name, in the order of their tree."""

    def below(kind: type[MirrorlakeError]) -> Iterator[type[MirrorlakeError]]:
        yield kind
        for one in kind.__subclasses__():
            yield from below(one)

    return {
        one.__name__: one for one in below(MirrorlakeError) if one.__module__.endswith("errors")
    }


def explain_class(name: str) -> Explanation:
    """What a class of errors means.

    Raises:
        KeyError: there is no such class, or nothing is said of it.
    """
    kind, text = classes()[name], _texts()["errors"][name]
    first = inspect.getdoc(kind) or ""
    means = " ".join(first.partition("\n\n")[0].split()).replace("``", "`")
    return Explanation(
        of=name,
        error=name,
        code=kind.exit_code,
        means=means,
        unchanged=text["unchanged"],
        do=text["do"],
        page=f"docs/{text['page']}",
        kinds=tuple(one.__name__ for one in kind.__subclasses__()),
    )


def exit_codes() -> dict[int, str]:
    """Exit codes and what they mean, from the words of `mirrorlake.cli`."""
    text = " ".join((cli.__doc__ or "").split())
    listed = text.partition("Exit codes: ")[2].partition(". ")[0]
    pairs = (part.strip().partition(" ") for part in listed.split("·"))
    return {int(code): meaning for code, _, meaning in pairs}


def explain_code(code: int) -> Explanation:
    """What an exit code means: of one that only one branch of errors has, as that says.

    Raises:
        KeyError: no command ends with it.
    """
    meaning = exit_codes()[code]
    means = f"{meaning[:1].upper()}{meaning[1:]}."
    branches = [one for one in MirrorlakeError.__subclasses__() if one.exit_code == code]
    own = _texts()["codes"].get(code)
    if own is not None:
        kinds = tuple(one.__name__ for one in branches)
        of, page = f"exit code {code}", f"docs/{own['page']}"
        return Explanation(of, None, code, means, "", own["do"], page, kinds)
    (branch,) = branches
    return replace(explain_class(branch.__name__), of=f"exit code {code}", means=means)


def symptoms() -> list[Explanation]:
    """Words of messages, and what is usually behind them."""
    return [
        replace(
            explain_class(one["error"]),
            of=one["says"],
            means=one["means"],
            do=one["do"],
            page=f"docs/{one['page']}",
            kinds=(),
        )
        for one in _texts()["symptoms"]
    ]
