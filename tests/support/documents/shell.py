"""Commands of a shell block, and whether each is one that there is, with options that it has."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from benchmarks.__main__ import main as benchmarks
from demo.__main__ import demo
from mirrorlake.cli.main import cli
from tests.support.documents.blocks import ROOT, Block

PLAIN = {".", "cat", "cd", "cp", "echo", "export", "ls", "mkdir"}
PLAIN |= {"find", "mv", "openssl", "paste", "rm", "sed", "touch", "umask"}
"""What every shell, or every Unix, has."""
DATABASES = {"pg_dump", "pg_restore", "sqlite3"}
"""Run by the tests of the pages that have them."""
DAGSTER = {"dagster", "dagster-daemon", "dagster-webserver"}
"""Read where Dagster is loaded anyway."""
_HEREDOC = re.compile(r"<<-?'?(\w+)'?(.*?)^\1$", re.MULTILINE | re.DOTALL)
_SIGNS = re.compile(r"[();<>|&]+|\$")


def check_syntax(block: Block) -> None:
    """A shell can read it."""
    done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True)
    assert done.returncode == 0, f"{block.place}: {done.stderr}"


def commands_of(text: str) -> Iterator[list[str]]:
    """Its simple commands, as words; assignments before one are left out."""
    text = _HEREDOC.sub("", text).replace("\\\n", " ")
    for line in text.splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        into = False
        for word in words:
            if re.fullmatch(r"[<>]+", word):
                into = True  # the next word is a file
            elif _SIGNS.fullmatch(word):
                yield from _command(command)
                command = []
            elif into:
                into = False
            else:
                command.append(word)
        yield from _command(command)


def _command(words: list[str]) -> Iterator[list[str]]:
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    if words:
        yield words


def check_command(words: Sequence[str]) -> None:
    """There is such a command, and it has these options.

    Raises:
        AssertionError: there is none.
        click.UsageError: it has no such option.
    """
    program, *rest = words
    if program == "mirrorlake":
        parse(cli, rest)
    elif program == "make":
        _check_make(rest)
    elif program in ("pip", "pipx"):
        _check_package(rest)
    elif Path(program).name == "python":
        _check_python(rest)
    elif program.startswith(".venv/bin/"):
        assert (ROOT / program).exists(), f"{program} is not there"
    else:
        assert program in PLAIN | DAGSTER | DATABASES, f"what is {program}? Mark the block: not run"


def parse(command: click.Command, words: Sequence[str]) -> None:
    """Read arguments as the command does, and do nothing."""
    context = click.Context(command)
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        assert found is not None, f"there is no command {rest[0]}"
        command, rest = found, rest[1:]
    command.make_context(str(command.name), rest, resilient_parsing=False)


def _check_make(words: Sequence[str]) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for word in words:
        name, given, _ = word.partition("=")
        pattern = rf"\$\({name}\)" if given else rf"^{name}:"
        assert re.search(pattern, makefile, re.MULTILINE), f"make has no {name}"


def _check_package(words: Sequence[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert words[0] == "install"
    [named] = [word for word in words[1:] if word != "--upgrade"]
    name, _, extras = named.rstrip("]").partition("[")
    assert name == "mirrorlake"
    assert {*extras.split(",")} - {""} <= project["optional-dependencies"].keys()


def _check_python(words: Sequence[str]) -> None:
    if words[:2] == ["-m", "demo"]:
        parse(demo, words[2:])
        return
    if words[:2] == ["-m", "benchmarks"]:
        parse(benchmarks, words[2:])
        return
    if words[:2] == ["-m", "pytest"]:
        assert all((ROOT / path).exists() for path in words[2:] if not path.startswith("-"))
        return
    name = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
    source = (ROOT / name).read_text("utf-8")
    assert [one for one in words if one.startswith("--") and one not in source] == []
