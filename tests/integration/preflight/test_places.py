"""Every finding and every error of a migration shows its file and its line; files without a
statement are one message."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.errors import DdlRefused
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.preflight.tables import preflight
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract

MIGRATION = """-- what comes with 2.0
ALTER TABLE t ADD COLUMN note TEXT;

ALTER TABLE t
    DROP COLUMN name;
GRANT SELECT ON *.* TO u;
ALTER TABLE other ADD COLUMN n INT;
UPDATE t SET note = '';
ALTER TABLE t DROP INDEX at; ALTER TABLE t ADD KEY (note(5));
"""


@pytest.fixture(scope="module")
def workspace(server: EmbeddedServer, place: Place) -> Iterator[Workspace]:
    """One for all: a preflight changes nothing."""
    name = f"t{uuid.uuid4().hex[:10]}"
    contract = {"mode": "incremental", "key": ["id"], "cursor": "at"}
    path = write_contract(
        place.folder / f"{name}.yaml", server.port, {name: {"tables": {"t": contract}}}
    )
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(
            f"CREATE TABLE {name}.t "
            "(id INT PRIMARY KEY, name VARCHAR(20), at DATETIME NOT NULL, KEY at (at))"
        )
        cursor.execute(f"INSERT INTO {name}.t VALUES (1, 'a', UTC_TIMESTAMP())")
        admin.commit()
        workspace = Workspace.open(load_config(path), spark=place.spark)
        sync_table(workspace, workspace.config.table("t"))
        yield workspace
        cursor.execute(f"DROP DATABASE {name}")


def run(workspace: Workspace, *arguments: str, given: str | None = None) -> Any:
    place = ["--config", str(workspace.config.path)]
    return CliRunner().invoke(cli, ["preflight", *arguments, *place], input=given)


def lines_of(found: list[dict[str, Any]]) -> dict[str, int | None]:
    return {f["words"]: f["line"] for one in found for f in one["findings"]}


def test_every_finding_has_the_line_of_its_statement(workspace: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "0042.sql"
    file.write_text(MIGRATION)
    whole = json.loads(run(workspace, "--file", str(file), "--json").output)
    lines = lines_of(whole)
    assert None not in lines.values()

    def line(words: str) -> int | None:
        return next(n for said, n in lines.items() if words in said)

    assert line("its next sync stops") == 9
    assert line("not looked at: GRANT") == 6
    assert line("not looked at: UPDATE") == 8
    assert line("MySQL has no table") == 7
    of_table = next(one for one in whole if one["table"].endswith(".t"))
    assert (of_table["file"], of_table["lines"]) == (str(file), [2, 4, 8, 9, 9])
    less = MIGRATION.replace("ALTER TABLE t DROP INDEX at; ", "")
    shown = run(workspace, "--file", "-", given=less).output
    assert "stdin:4: clean loses name: queries that name it fail" in shown
    assert "stdin:2: note is new" in shown
    assert "stdin:2: a new version" in shown


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("ALTER TABLE t ADD a INT;\nALTER TABLE t DROP b", (2, None), "it has no column 'b'"),
        ("\nALTER TABLE t ADD a NONSENSE", (2, 15), "can't be read"),
        ("\nALTER TABLE t ADD a VARCHAR2(9)", (2, None), "MariaDB has no type VARCHAR2"),
        ("\n\nALTER TABLE t ADD (", (3, 19), "ALTER TABLE t ADD ("),
    ],
)
def test_every_error_has_its_place(
    workspace: Workspace, tmp_path: Path, text: str, where: tuple[int, int | None], words: str
) -> None:
    file = tmp_path / "m.sql"
    file.write_text(text)
    result = run(workspace, "--file", str(file), "--json")
    assert isinstance(result.exception, DdlRefused)
    said = json.loads(result.output)
    assert (said["file"], said["line"]) == (str(file), where[0])
    col = "" if said["column"] is None else f":{said['column']}"
    assert (said["column"] is None) == (where[1] is None)
    assert said["error"].startswith(f"{file}:{where[0]}{col}: ")
    assert words in said["error"]
    with pytest.raises(DdlRefused, match=f"^line {where[0]}[:,]"):
        preflight(workspace, text)


@pytest.mark.parametrize(
    "text", ["", "\n \n", "-- nothing\n/* at all */\n# yet", ";;\n", "SET x = 1;"]
)
def test_a_file_without_a_statement_is_one_message(
    workspace: Workspace, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "empty.sql"
    file.write_text(text)
    result = run(workspace, "--file", str(file))
    words = f"{file} has no statement that changes a table: no mirror changes"
    assert (result.exit_code, result.output.split()) == (0, words.split())
    result = run(workspace, "--file", "-", "--json", given=text)
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])
    assert "stdin has no statement" in result.stderr


def test_nothing_to_look_at_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    for arguments in ((), ("",), (" ", "--file", "-")):
        assert "takes statements or a file" in str(run(workspace, *arguments).exception)
    assert "can't be read" in str(run(workspace, "--file", str(tmp_path / "gone")).exception)
