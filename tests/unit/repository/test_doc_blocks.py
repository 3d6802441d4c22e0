"""Each code block of the documents is read as what it is for reads it, or says why not.

Blocks that Dagster reads are in `tests/location/test_doc_blocks.py`; those that a new user runs, in
`tests/integration/repository/test_new_user.py`.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

import click
import pytest
import sqlglot
import yaml

from tests.support.documents import shell
from tests.support.documents.blocks import ALL_BLOCKS, ROOT, Block, blocks_of
from tests.support.documents.yaml_blocks import DAGSTER, read_model_sql, read_yaml
from tools.diagrams import diagram_path

DOCS = ROOT / "docs"
LANGUAGES = {"sh", "yaml", "sql", "python", "json", "text", "mermaid"}


def of(language: str) -> list[pytest.param]:
    found = [b for b in ALL_BLOCKS if b.language == language and not b.not_run]
    return [pytest.param(block, id=block.place) for block in found]


def test_every_block_is_of_a_language_that_something_reads() -> None:
    assert [b.place for b in ALL_BLOCKS if b.language not in LANGUAGES] == []
    assert len(ALL_BLOCKS) > 140


def test_what_is_not_run_says_why() -> None:
    """The number is here so that it can't grow unseen."""
    left_out = {block.place: block.not_run for block in ALL_BLOCKS if block.not_run}
    assert all(len(reason.split()) > 2 for reason in left_out.values()), left_out
    assert len(left_out) == 7, "\n".join(f"{k}: {v}" for k, v in left_out.items())
    # A text is what something prints: its command is what can be run.
    assert not [b.place for b in ALL_BLOCKS if b.not_run and b.language in ("text", "mermaid")]


@pytest.mark.parametrize("block", of("sh"))
def test_each_command_is_there_with_its_options(block: Block) -> None:
    shell.check_syntax(block)
    commands = list(shell.commands_of(block.text))
    assert commands
    for words in commands:
        shell.check_command(words)


def test_a_block_can_be_pasted_into_a_terminal() -> None:
    """There `init` would ask, and take the lines after it for answers."""
    commands = [
        (block.place, words)
        for block in ALL_BLOCKS
        if block.language == "sh" and not block.not_run
        for words in shell.commands_of(block.text)
        if words[:3] == ["mirrorlake", "init", "--from"]
    ]
    assert len(commands) > 4
    decide = {"--yes", "--json", "--database", "--tables", "--exclude", "--mode", "--column"}
    assert [place for place, words in commands if not decide.intersection(words)] == []


@pytest.mark.parametrize(
    "line", ["mirrorlake sink", "make dem", "mirrorlake sync --fast", "ocker ps"]
)
def test_a_command_that_is_not_there_is_found(line: str) -> None:
    [words] = shell.commands_of(line)
    with pytest.raises((AssertionError, click.UsageError)):
        shell.check_command(words)


def test_commands_are_taken_apart_as_a_shell_does() -> None:
    text = "A=1 a 'b c' \\\n  d && e > f; g=$(h | i)  # j\ncat > x <<'END'\nk l\nEND\n"
    found = [["a", "b c", "d"], ["e"], ["h"], ["i"], ["cat"]]
    assert list(shell.commands_of(text)) == found


@pytest.mark.parametrize("block", of("yaml"))
def test_each_yaml_is_read_by_its_reader(block: Block, tmp_path: Path) -> None:
    if block.text.startswith("---") or next(iter(yaml.safe_load(block.text))) not in DAGSTER:
        read_yaml(block.text, tmp_path)


def test_a_setting_that_is_not_there_is_found(tmp_path: Path) -> None:
    blocks = [b for b in ALL_BLOCKS if b.language == "yaml" and "mode: incremental" in b.text]
    for number, block in enumerate(blocks):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(Exception, match="modus: unknown key"):
            read_yaml(block.text.replace("mode: incremental", "modus: incremental", 1), folder)


DIALECTS = ("mysql", "spark", "postgres")
OF_SERVERS = ("CREATE USER", "CREATE ROLE", "CREATE DATABASE", "GRANT")


def is_known(parsed: sqlglot.exp.Expr) -> bool:
    """sqlglot reads no accounts and databases: servers do, in `test_new_user.py`."""
    if isinstance(parsed, sqlglot.exp.Command):
        return parsed.sql().startswith(OF_SERVERS)
    return True


@pytest.mark.parametrize("block", of("sql"))
def test_each_sql_can_be_read(block: Block, tmp_path: Path) -> None:
    if block.text.startswith("---"):
        read_model_sql(block.text, tmp_path)
        return
    # `<the day's last load>` stands for a number.
    text = re.sub(r"<[a-z' ]+>", "1", block.text)
    read = set()
    for dialect in DIALECTS:
        try:
            parsed = sqlglot.parse(text, dialect=dialect)
        except sqlglot.errors.ParseError:
            continue
        if all(one is not None and is_known(one) for one in parsed):
            read.add(dialect)
    assert read, block.place


@pytest.mark.parametrize("block", of("python"))
def test_each_python_compiles(block: Block) -> None:
    ast.parse(block.text, block.place)
    compile(block.text, block.place, "exec")


@pytest.mark.parametrize("block", of("json"))
def test_each_json_is_json(block: Block) -> None:
    json.loads(block.text)


def test_the_diagrams_of_the_site_are_drawn_and_no_others() -> None:
    """The README's is drawn by Git hosts alone: it is not on the site."""
    blocks = [b for b in ALL_BLOCKS if b.language == "mermaid" and b.page.is_relative_to(DOCS)]
    wanted = {diagram_path(block.text).name for block in blocks}
    drawn = {path.name for path in diagram_path("").parent.glob("*.svg")}
    assert drawn == wanted, "run: python -m tools.diagrams"


def test_blocks_are_found_with_their_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n<!-- not run: costs money -->\n```sh\na\n```\n\n1. b\n\n    ```sql\n    c\n    ```\n"
    )
    first, second = blocks_of(page)
    assert (first.line, first.language, first.text, first.not_run) == (
        4,
        "sh",
        "a\n",
        "costs money",
    )
    assert (second.language, second.text, second.not_run) == ("sql", "c\n", "")
    assert Counter([first.language]) == {"sh": 1}
