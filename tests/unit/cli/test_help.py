"""`mirrorlake --help`: every command once, by what it is for, in a whole line of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

from click.testing import CliRunner

from mirrorlake.cli.main import SECTIONS, cli

_WIDTH = 80


def test_every_command_is_in_one_section_and_its_line_is_whole() -> None:
    printed = CliRunner().invoke(cli, ["--help"], terminal_width=_WIDTH, max_content_width=_WIDTH)
    _, _, rest = printed.output.partition("Show this message and exit.\n")
    lines = [line for line in rest.splitlines() if line]
    titles = [line.removesuffix(":") for line in lines if not line.startswith(" ")]
    rows = [re.fullmatch(r"  ([\w-]+) {2,}(\S.*)", line) for line in lines if line.startswith(" ")]
    assert titles == list(SECTIONS)
    assert all(rows), "a line goes on in the next one"
    assert Counter(row[1] for row in rows if row) == Counter(dict.fromkeys(cli.commands, 1))
    assert [row[0] for row in rows if row and row[2].endswith("...")] == []
    assert {row.start(2) for row in rows if row} == {rows[0].start(2) if rows[0] else 0}


def test_a_newcomer_meets_what_a_newcomer_needs_first() -> None:
    first = [name for some in list(SECTIONS.values())[:2] for name in some]
    assert all(command.name == name for name, command in cli.commands.items())
    assert first[:7] == ["try", "init", "doctor", "plan", "explain", "sync", "status"]


def test_the_module_that_the_command_is_in_is_the_command() -> None:
    asked = [sys.executable, "-m", "mirrorlake.cli.main", "--version"]
    said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    assert said.startswith("mirrorlake, version ")
