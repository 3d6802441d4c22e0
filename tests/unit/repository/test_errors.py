"""The error tree: drawn as it is, and with the exit codes that the command line documents."""

from __future__ import annotations

import re

import pytest

from mirrorlake import cli, errors
from mirrorlake.errors import MirrorlakeError, SourceError


def all_errors(root: type[MirrorlakeError] = MirrorlakeError) -> list[type[MirrorlakeError]]:
    return [root, *(e for child in root.__subclasses__() for e in all_errors(child))]


def test_the_docstring_draws_the_tree() -> None:
    drawn: dict[str, str] = {}
    parents = ["MirrorlakeError"]
    for line in str(errors.__doc__).splitlines():
        found = re.match(r"    ((?:│   |    )*)[├└]── (\w+) +\S", line)
        if found:
            depth = len(found[1]) // 4 + 1
            parents[depth:] = [found[2]]
            drawn[found[2]] = parents[depth - 1]
    in_code = {e.__name__: e.__bases__[0].__name__ for e in all_errors()[1:]}
    assert drawn == in_code


def test_every_kind_has_its_documented_exit_code() -> None:
    """Kinds of one branch share a code: it says whose problem it is."""
    branches = MirrorlakeError.__subclasses__()
    codes = [e.exit_code for e in branches]
    assert len(set(codes)) == len(codes)
    assert all(child.exit_code == e.exit_code for e in branches for child in all_errors(e))
    documented = {int(n) for n in re.findall(r"(?:^|· )(\d)", str(cli.__doc__), re.MULTILINE)}
    assert {*codes, MirrorlakeError.exit_code} <= documented | {0}
    assert MirrorlakeError.exit_code == 1


def test_an_error_reads_as_what_and_what_to_do() -> None:
    error = SourceError("s is away", next_step="Look for it", source="s", retryable=True)
    assert str(error) == "s is away. Look for it"
    assert (error.source, error.table, error.retryable) == ("s", None, True)
    assert str(SourceError("s is away")) == "s is away"


@pytest.mark.parametrize("kind", all_errors())
def test_nothing_is_retried_unless_somebody_said_so(kind: type[MirrorlakeError]) -> None:
    assert not kind("x").retryable
