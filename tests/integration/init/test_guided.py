"""`mirrorlake init` on a real terminal: what it asks, what it writes, and that it writes nothing else."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import PASSWORD, USER
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[3]
PROGRAM = (sys.executable, "-c", "from mirrorlake.cli.main import main; main()")
TABLES = (
    "CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(90), first_name VARCHAR(50), "
    "city VARCHAR(40), modified_at DATETIME NOT NULL, KEY (modified_at))",
    "CREATE TABLE cards (id INT PRIMARY KEY, card_number VARCHAR(20), holder_name VARCHAR(40))",
    "CREATE TABLE events_log (id INT AUTO_INCREMENT PRIMARY KEY, kind VARCHAR(20))",
    "CREATE TABLE kinds (id INT PRIMARY KEY, name TEXT)",
    "INSERT INTO customers VALUES (1, 'a@example.com', 'Anna', 'Riga', '2026-01-01')",
)
TABLES_ASKED = "Leave out"
RULES_ASKED = "Decide ("
FILE_ASKED = "Write the contract to"


def rows_of(shown: str, database: str) -> dict[str, str]:
    """What a screen says of each table or column, by its name: a row, or a record of lines."""
    found, name = dict[str, list[str]](), ""
    for line in shown.splitlines():
        if row := re.match(rf"\s*\d+\. ({database}\.[\w.]+)", line):
            name = row[1]
        if name:
            found.setdefault(name, []).append(line.strip())
    return {name: " ".join(lines) for name, lines in found.items()}


@pytest.fixture
def environment() -> dict[str, str]:
    known = {k: v for k, v in os.environ.items() if not k.startswith("MIRRORLAKE_")}
    return known | {"PYTHONPATH": str(ROOT), "MIRRORLAKE_INIT_PASSWORD": PASSWORD, "TERM": "dumb"}


@pytest.fixture
def made(sql: Callable[..., Any]) -> None:
    sql(*TABLES)


@pytest.fixture
def open_init(
    server: MariaDB, database: str, tmp_path: Path, environment: dict[str, str], made: None
) -> Iterator[Callable[..., Terminal]]:
    """Begin the dialogue, on the test's database unless other options are given."""
    opened = list[Terminal]()

    def begin(*options: str, width: int = 120) -> Terminal:
        url = f"mysql://{USER}@127.0.0.1:{server.port}/{database}"
        words = options or ("--from", url)
        terminal = Terminal((*PROGRAM, "init", *words), tmp_path, environment, width=width)
        opened.append(terminal)
        return terminal

    yield begin
    for one in opened:
        one.__exit__(None, None, None)


def test_each_thing_is_asked_and_the_same_is_written_by_options(
    open_init: Callable[..., Terminal],
    database: str,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    dialogue = open_init()
    assert "MariaDB" in dialogue.wait_for("2 of 6  Databases")
    shown = dialogue.wait_for(TABLES_ASKED)
    rows = rows_of(shown, database)
    assert list(rows) == [f"{database}.{t}" for t in ("cards", "customers", "events_log", "kinds")]
    assert "full" in rows[f"{database}.kinds"]
    assert "no column says when a row changed" in rows[f"{database}.kinds"]
    assert "incremental" in rows[f"{database}.customers"]
    assert "modified_at leads an index" in rows[f"{database}.customers"]
    dialogue.answer("kinds, nobody")
    assert "'nobody' names nothing here" in dialogue.wait_for(TABLES_ASKED)
    dialogue.answer("3=full")
    dialogue.wait_for(TABLES_ASKED)
    dialogue.answer("4")
    assert "left out" in dialogue.wait_for(TABLES_ASKED)
    dialogue.answer()
    dialogue.wait_for("can follow the server's binary log")
    dialogue.answer("n")
    shown = dialogue.wait_for(RULES_ASKED)
    rows = rows_of(shown, database)
    places = {name.removeprefix(f"{database}."): row.split(".")[0] for name, row in rows.items()}
    assert {"cards.card_number", "customers.email", "customers.first_name"} <= places.keys()
    dialogue.answer(f"{places['customers.email']}=secret")
    assert "Rules: mask, hash, drop" in dialogue.wait_for(RULES_ASKED)
    dialogue.answer(f"{places['customers.email']}=mask")
    dialogue.wait_for(RULES_ASKED)
    dialogue.answer("*.first_name=show")
    dialogue.wait_for(RULES_ASKED)
    dialogue.answer()
    dialogue.wait_for(FILE_ASKED)
    dialogue.answer()
    shown = dialogue.wait_for("Write it")
    assert list(tmp_path.iterdir()) == [], "nothing is written before the last answer"
    [command] = [line for line in shown.splitlines() if line.startswith("  mirrorlake init ")]
    dialogue.answer()
    assert dialogue.end() == 0, dialogue.said
    assert PASSWORD not in dialogue.said
    contract = tmp_path / "mirrorlake.yaml"
    text = contract.read_text("utf-8")
    [source] = yaml.safe_load(text)["sources"].values()
    tables = source["databases"][database]["tables"]
    assert {name: one["mode"] for name, one in tables.items()} == {
        **{"cards": "full", "customers": "incremental", "events_log": "full"},
    }
    rules = tables["customers"]["columns"]
    assert (rules["email"], rules["first_name"]) == ({"pii": "mask"}, {"pii": "show"})
    assert tables["cards"]["columns"]["card_number"] == {"pci": "never"}
    contract.unlink()
    words = [*PROGRAM, *shlex.split(command)[1:]]
    subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert contract.read_text("utf-8") == text


@pytest.mark.parametrize(
    "asked",
    [
        *(pytest.param(one, marks=pytest.mark.full) for one in (TABLES_ASKED, RULES_ASKED)),
        FILE_ASKED,
    ],
)
def test_ctrl_c_leaves_all_as_it_was(
    open_init: Callable[..., Terminal], tmp_path: Path, asked: str
) -> None:
    contract = tmp_path / "mirrorlake.yaml"
    contract.write_text("as it was")
    dialogue = open_init()
    for question in (TABLES_ASKED, "binary log", RULES_ASKED, FILE_ASKED):
        dialogue.wait_for(question)
        if question == asked:
            break
        dialogue.answer("n" if question == "binary log" else "")
    assert dialogue.interrupt() == 130
    assert dialogue.said.endswith("\nInterrupted. Nothing was written.\n")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(contract.name, "as it was")]


@pytest.mark.full
def test_a_file_that_is_there_is_overwritten_by_an_answer_alone(
    open_init: Callable[..., Terminal], tmp_path: Path
) -> None:
    """And on a narrow terminal."""
    (tmp_path / "mirrorlake.yaml").write_text("as it was")
    dialogue = open_init(width=40)
    dialogue.wait_for(TABLES_ASKED)
    dialogue.answer()
    dialogue.wait_for("binary log")
    dialogue.answer("y")
    dialogue.wait_for(RULES_ASKED)
    dialogue.answer()
    dialogue.wait_for(FILE_ASKED)
    dialogue.answer()
    dialogue.wait_for("is there already. Overwrite it")
    dialogue.answer("n")
    dialogue.wait_for(FILE_ASKED)
    dialogue.answer("other.yaml")
    dialogue.wait_for("Write it")
    dialogue.answer("y")
    assert dialogue.end() == 0, dialogue.said
    assert (tmp_path / "mirrorlake.yaml").read_text() == "as it was"
    assert "mode: binlog" in (tmp_path / "other.yaml").read_text("utf-8")


@pytest.mark.full
def test_the_server_is_asked_for_until_one_answers(
    server: MariaDB,
    database: str,
    environment: dict[str, str],
    tmp_path: Path,
    made: None,
    sql: Callable[..., Any],
) -> None:
    sql(f"CREATE DATABASE {database}_b", f"CREATE TABLE {database}_b.other (id INT PRIMARY KEY)")
    del environment["MIRRORLAKE_INIT_PASSWORD"]
    dialogue = Terminal((*PROGRAM, "init"), tmp_path, environment)
    with dialogue:
        dialogue.wait_for("mysql://user@host:port/database")
        dialogue.answer("shop")
        dialogue.wait_for("does not begin with mysql://")
        dialogue.wait_for("mysql://user@host:port/database")
        dialogue.answer(f"mysql://{USER}@127.0.0.1:{server.port}")
        dialogue.wait_for("Password of")
        dialogue.answer("wrong")
        dialogue.wait_for("Access denied")
        dialogue.wait_for("mysql://user@host:port/database")
        dialogue.answer(f"mysql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}")
        dialogue.wait_for("Which ones?")
        dialogue.answer(database)
        assert f"{database}_b" not in dialogue.wait_for(TABLES_ASKED)
        assert dialogue.interrupt() == 130
    sql(f"DROP DATABASE {database}_b")
    assert list(tmp_path.iterdir()) == []
