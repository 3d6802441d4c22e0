"""A migration's CREATE TABLE of a table that is not mirrored: what a mirror of it would be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.errors import DdlRefused
from mirrorlake.preflight.tables import preflight
from mirrorlake.workspace import Workspace

KEYED = "id INT PRIMARY KEY"
CASES: dict[str, tuple[int, tuple[str, ...]]] = {
    f"CREATE TABLE n ({KEYED}, at TIMESTAMP NOT NULL ON UPDATE CURRENT_TIMESTAMP)": (
        0, ("a new table: it is not mirrored", "would propose mode", "key (id)"),
    ),
    "CREATE TABLE n (a INT)": (0, ("no key", "mode full")),
    f"CREATE TABLE n ({KEYED}, email VARCHAR(99))": (
        0, ("email: its name", "decide what clean shows of it"),
    ),
    f"CREATE TABLE n ({KEYED}, _mirror_x INT, `_mirror_y` INT)": (
        10, ("'_mirror_x' is called as Mirrorlake's own", "'_mirror_y' is called as"),
    ),
    f"CREATE TABLE T ({KEYED})": (10, ("its name is that of t, which is mirrored, but for its",)),
    "CREATE TABLE n LIKE t": (0, ("key (id)",)),
    "CREATE TABLE n SELECT * FROM t": (0, ("columns were not looked at: they come from a query",)),
    f"CREATE TABLE elsewhere.n ({KEYED})": (0, ("columns were not looked at",)),
    f"CREATE TABLE n ({KEYED}); ALTER TABLE n ADD COLUMN phone TEXT": (0, ("phone: its name",)),
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_a_new_table_is_looked_at(
    text: str, sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))")
    workspace = engine_for({"t": {"mode": "incremental", "key": ["id"], "cursor": "at"}})
    code, words = CASES[text]
    config = ["--config", str(workspace.config.path)]
    done = CliRunner().invoke(cli, ["preflight", text, "--json", *config])
    assert done.exit_code == code, done.output
    for one in words:
        assert one in done.output, done.output


def test_a_new_table_that_takes_the_place_of_a_mirrored_one(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    text = "CREATE TABLE n LIKE t; ALTER TABLE n ADD more INT; RENAME TABLE t TO old, n TO t"
    found = {one.table.rpartition(".")[2]: one.findings for one in preflight(workspace, text)}
    assert [one.words for one in found["n"]] == ["it is t then, which is mirrored"]
    assert "n takes its name" in found["t"][0].words


def test_what_the_server_would_refuse_is_refused(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    for columns in ("id INT, id INT", "id INT, PRIMARY KEY (nothing)"):
        with pytest.raises(DdlRefused, match="the server would refuse it"):
            preflight(workspace, f"CREATE TABLE n ({columns})")
