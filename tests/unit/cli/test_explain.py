"""`mirrorlake explain`: every error and exit code is explained, and pasted messages are found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import mirrorlake
from mirrorlake.cli.explain.command import find
from mirrorlake.cli.explain.explanations import (
    _texts,
    classes,
    exit_codes,
    explain_class,
    explain_code,
)
from mirrorlake.cli.explain.messages import find_error
from mirrorlake.cli.main import cli
from mirrorlake.errors import ConfigError, LeaseHeld, MirrorlakeError, TooFewRows

ENGINE = Path(mirrorlake.__file__).parent


def run(*words: str) -> str:
    ran = CliRunner().invoke(cli, ["explain", *words])
    assert ran.exit_code == 0, ran.exception
    return ran.stdout


def test_every_class_of_errors_is_explained_and_no_other() -> None:
    assert _texts()["errors"].keys() == classes().keys()
    for name in classes():
        one = explain_class(name)
        assert one.code == getattr(mirrorlake.errors, name).exit_code
        for words in (one.means, one.unchanged, one.do, one.page):
            assert words, name


def test_every_exit_code_is_explained() -> None:
    for code, meaning in exit_codes().items():
        one = explain_code(code)
        assert (one.code, one.means.casefold()) == (code, f"{meaning}.".casefold())
        assert one.do, code
    assert explain_code(4).error == "SourceError"
    assert set(_texts()["codes"]) <= exit_codes().keys()


def test_words_of_ours_are_words_that_the_code_says() -> None:
    code = "\n".join(path.read_text("utf-8") for path in ENGINE.rglob("*.py"))
    own = [one for one in _texts()["symptoms"] if not one.get("theirs")]
    assert len(own) > 10
    said = [str(one.get("made_of", one["says"])) for one in own]
    assert [words for words in said if words not in code] == []


def test_every_command_that_is_advised_is_there() -> None:
    known = dict(commands(cli))
    text = ENGINE.joinpath("cli/explain/explanations.yaml").read_text("utf-8")
    named = re.findall(r"`mirrorlake ([a-z]+(?: [a-z]+)?)([^`]*)`", text)
    assert len(named) > 20
    for words, rest in named:
        name = next((one for one in (words, words.split()[0]) if one in known), None)
        assert name is not None, words
        assert set(re.findall(r"--[a-z-]+", rest)) <= known[name], (name, rest)


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Every command, and its options."""
    yield " ".join(path), {name for one in command.params for name in one.opts}
    for name, one in command.commands.items() if isinstance(command, click.Group) else ():
        yield from commands(one, (*path, name))


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("table s.d.t is being written by run x (process 7), whose lease runs until 10:00:00 UTC. "
         "Try again when it is done; a dead run's lease ends by itself", LeaseHeld),
        ("error: table s.d.orders: MySQL no longer has 9 of the mirror's 10 rows: 90% less, and "
         "shrink_limit is 50%. They stay in the mirror", TooFewRows),
        ("mirrorlake.yaml is there already. Give another --output, or --force to overwrite it",
         ConfigError),
    ],
)  # fmt: skip
def test_the_error_of_a_pasted_message_is_found(message: str, kind: type[MirrorlakeError]) -> None:
    assert find_error(message, classes()) == kind.__name__
    assert kind.__name__ in [one.error for one in find(message)]


def test_what_nobody_says_is_not_found() -> None:
    assert find_error("the cat sat on the mat, and nobody said so", classes()) is None
    with pytest.raises(ConfigError, match="nothing is known of 'the cat'") as refused:
        find("the cat")
    assert "paste a message whole" in str(refused.value)


def test_near_names_are_offered() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean SourceError"):
        find("SorceEror")
    with pytest.raises(ConfigError, match=r"Exit codes: 0, 1, 2, 3"):
        find("77")


def test_a_class_and_a_code_on_the_screen() -> None:
    said = run("sourceheld")
    assert said.startswith("SourceHeld (exit code 4)\n  means: A person asked us")
    assert "\n  unchanged: The source was not queried." in said
    assert "\n  page: docs/being-gentle.md" in said
    assert run("9").startswith("exit code 9\n  means: A difference,")


def test_words_that_several_know_are_all_said() -> None:
    said = run("source s (127.0.0.1:3306): Access denied for user 'mirror'@'localhost'")
    assert said.startswith("“Access denied”: SourceError (exit code 4)")


def test_without_an_argument_all_are_listed() -> None:
    said = run()
    assert all(name in said for name in classes())
    printed = json.loads(run("--json"))
    assert len(printed) == len(classes()) + len(exit_codes())
    assert json.loads(run("NotProved", "--json"))[0]["page"] == "docs/proof-of-loads.md"
