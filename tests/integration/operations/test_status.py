"""What `mirrorlake status` shows: refusals, holds, and counts that are made once a version."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands
from tests.support.command import COMMAND

Sql = Callable[..., Any]


@pytest.fixture
def config(server: MariaDB, place: Place, database: str, sql: Sql) -> Path:
    sql(
        "CREATE TABLE kept (id INT PRIMARY KEY, v INT)",
        "INSERT INTO kept VALUES (1, 1), (2, 2)",
        "CREATE TABLE changed (id INT PRIMARY KEY, v INT, w INT)",
        "INSERT INTO changed VALUES (1, 1, 1)",
    )
    # Of their own each: YAML would write the second as an alias of the first.
    tables = {
        name: {"mode": "full", "key": ["id"], "schema_changes": policy}
        for name, policy in {"kept": "evolve", "changed": "fail"}.items()
    }
    path = place.folder / f"{database}.yaml"
    return write_contract(
        path,
        server.port,
        {database: {"tables": tables}},
        ledger={"url": f"sqlite:///{database}.db"},
    )


def run(config: Path, *arguments: str) -> tuple[int, Any]:
    result = CliRunner().invoke(cli, [*arguments, "--config", str(config)])
    return result.exit_code, json.loads(result.stdout) if "--json" in arguments else result.output


def test_status_shows_refusals_and_holds_and_counts_a_version_once(
    config: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(config, "sync", "--json")[0] == 0
    sql("ALTER TABLE changed MODIFY COLUMN w VARCHAR(9)")
    assert run(config, "sync", "--json")[0] == 5

    changed, kept = run(config, "status", "--json")[1]
    assert (kept["state"], kept["rows"], kept["error"]) == ("success", 2, None)
    assert (changed["state"], changed["rows"]) == ("refused", 1)
    assert "its schema changed in MySQL" in changed["error"]
    # No word is cut on a narrow screen, and the refusal is a line of its own.
    monkeypatch.setattr("mirrorlake.cli.show.console.width", 60)
    shown = run(config, "status")[1]
    assert changed["table"] in shown
    assert re.search(r"^refused \(first .+ ago\): table", shown, re.MULTILINE)

    # The next load that begins ends the refusal.
    sql("ALTER TABLE changed MODIFY COLUMN w INT")
    assert run(config, "sync", "--json")[0] == 0
    assert [s["state"] for s in run(config, "status", "--json")[1]] == ["success", "success"]

    assert run(config, "hold", "s", "--until", "2100-01-01T00:00", "--reason", "a move")[0] == 0
    assert [h["source"] for h in run(config, "hold", "--json")[1]] == ["s"]
    held = run(config, "status", "--json")[1]
    assert {(s["held_until"], s["held_for"]) for s in held} == {
        ("2100-01-01T00:00+00:00", "a move")
    }
    code, said = run(config, "sync", "--json")
    (command,) = {reason["reason"].split("`")[1] for reason in said["held"]}
    assert code == 0
    # The command that the message names works as it is printed.
    assert run(config, *command.split()[1:])[0] == 0
    assert run(config, "hold", "--json")[1] == []

    # Nothing moved since the last look: PyIceberg is not even imported, nor a secret asked for.
    secrets = ("TEST_PASSWORD", "TEST_HASH_KEY")
    environment = {name: text for name, text in os.environ.items() if name not in secrets}
    command = (COMMAND[1], "status", "--json", "--config", str(config))
    found = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert [s["rows"] for s in json.loads(found.stdout)] == [1, 2]
    assert "pyiceberg" not in found.stderr


def test_a_misspelt_cursor_is_found_by_the_doctor_with_its_line(config: Path, sql: Sql) -> None:
    """Only the server knows the columns; before, `sync` alone asked it, and named no line."""
    text = config.read_text()
    at = text.index("mode: full")
    broken = text[:at] + "mode: incremental\n            cursor: modified_att" + text[at + 10 :]
    config.write_text(broken)
    line = broken[: broken.index("modified_att")].count("\n") + 1
    pieces = {piece["name"]: piece for piece in run(config, "doctor", "--json")[1]}
    (name,) = (name for name in pieces if name.startswith("table "))
    assert f"{config}:{line}:21: " in pieces[name]["detail"]
    assert "has no column 'modified_att'. Its columns are: id, v" in pieces[name]["detail"]
    tables = pieces["tables of s"]
    assert (tables["state"], tables["detail"]) == ("broken", "1 of 2 contracts can be kept")
    failed = run(config, "sync", "--json")[1]["errors"]
    assert [f"{config}:{line}:21: " in error["error"] for error in failed] == [True]


def test_a_table_that_mysql_does_not_have_is_named_with_its_line_and_the_nearest(
    config: Path, sql: Sql, database: str
) -> None:
    sql("CREATE VIEW shown AS SELECT id FROM kept")
    text = config.read_text()
    line = text[: text.index(" kept:")].count("\n") + 1
    config.write_text(text.replace(" kept:", " kepts:"))
    words = (
        f"{config}:{line}:11: MySQL has no table {database}.kepts that this user may read; "
        "did you mean 'kept'?"
    )
    pieces = {piece["name"]: piece for piece in run(config, "doctor", "--json")[1]}
    assert pieces[f"table s.{database}.kepts"]["detail"].startswith(words)
    assert [e["error"].startswith(words) for e in run(config, "sync", "--json")[1]["errors"]] == [
        True
    ]

    config.write_text(text.replace(" kept:", " shown:"))
    pieces = {piece["name"]: piece for piece in run(config, "doctor", "--json")[1]}
    shown = pieces[f"table s.{database}.shown"]["detail"]
    assert f"{config}:{line}:11: {database}.shown is a view, and only tables are mirrored" in shown


@pytest.mark.full
def test_a_log_shows_each_table_as_it_is_done(config: Path, database: str) -> None:
    command = [*COMMAND, "sync", "--config", str(config)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=config.parent)
    lines = [line for line in ran.stderr.splitlines() if " of 2: " in line]
    # As they end, side by side.
    assert [line[:7] for line in lines] == ["1 of 2:", "2 of 2:"], ran.stdout + ran.stderr
    assert sorted(line[8:].rsplit(",", 1)[0] for line in lines) == [
        f"s.{database}.changed: 1 row",
        f"s.{database}.kept: 2 rows",
    ]
