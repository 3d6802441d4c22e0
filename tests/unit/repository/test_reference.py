"""The reference pages are what the code says: `python -m tools.reference` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from demo.__main__ import demo
from mirrorlake import errors
from mirrorlake.cli.main import cli
from mirrorlake.cli.reports import DIFFERENT, UNDECIDED
from mirrorlake.config import config_schema
from tools import reference


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command's full name; groups as well."""
    yield name, group
    for sub, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {sub}")
        else:
            yield f"{name} {sub}", command


COMMANDS = {**dict(commands(cli, "mirrorlake")), **dict(commands(demo, "python -m demo"))}


@pytest.mark.parametrize("path", reference.PAGES, ids=lambda path: path.name)
def test_the_page_is_what_the_code_says(path: Path) -> None:
    written = reference.PAGES[path]()
    assert path.read_text("utf-8") == written, "run: python -m tools.reference"


def test_every_command_is_on_the_page() -> None:
    headings = re.findall(r"^### (.+)$", reference.cli_page(), re.MULTILINE)
    assert sorted(headings) == sorted(set(COMMANDS) - {"mirrorlake"})


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_says_what_it_does(name: str) -> None:
    assert COMMANDS[name].help
    for option in COMMANDS[name].params:
        assert not isinstance(option, click.Option) or option.help, option.name


def test_every_exit_code_has_its_words() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    codes = {one.exit_code for one in classes if issubclass(one, errors.MirrorlakeError)}
    assert set(reference.exit_codes()) == codes | {0, 20, 130, DIFFERENT, UNDECIDED}


def test_every_section_of_the_configuration_has_a_heading() -> None:
    assert set(reference.SECTIONS.values()) - {None} == set(config_schema()["$defs"])


def test_every_command_that_prints_json_has_its_fields() -> None:
    headings = re.findall(r"^## (.+)$", reference.JSON.read_text("utf-8"), re.MULTILINE)
    with_json = {n for n, c in COMMANDS.items() if any("--json" in p.opts for p in c.params)}
    assert with_json <= set(headings)


def test_a_field_without_words_is_an_error() -> None:
    @dataclass
    class Half:
        """Half of it.

        Attributes:
            one, two: of both. three: of it alone.
        """

        one: int
        two: int
        three: int
        four: int

    with pytest.raises(KeyError, match="Half does not describe four"):
        reference.described(Half)
