"""`mirrorlake init` and the server's binary log: which tables could follow it, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from mirrorlake.config import load_config
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import PASSWORD
from tests.integration.init.test_first_contract import init  # noqa: F401 - a fixture
from tests.integration.sources.mysql.binlog.test_binlog_mariadb import set_globally

Sql = Callable[..., Any]
Init = Callable[..., Result]
TABLES = (
    "CREATE TABLE kept (id INT PRIMARY KEY, name VARCHAR(9))",
    "CREATE TABLE child (id INT PRIMARY KEY, kept INT,"
    " FOREIGN KEY (kept) REFERENCES kept (id) ON DELETE CASCADE)",
    "CREATE TABLE keyless (id INT)",
    "CREATE TABLE old (id INT PRIMARY KEY) ENGINE = MyISAM",
    "CREATE TABLE moving (id INT PRIMARY KEY, updated_at DATETIME NOT NULL, KEY (updated_at))",
)
DAYS = 3 * 86_400


def modes(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    table = ""
    for line in text.splitlines():
        if line.startswith("          ") and line.endswith(":") and "#" not in line:
            table = line.strip(" :")
        if line.startswith("            mode: "):
            found[table] = line.split(": ")[1]
    return found


def test_full_copies_could_follow_a_log_that_qualifies(
    server: MariaDB,
    sql: Sql,
    init: Init,  # noqa: F811
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    sql(*TABLES)
    with set_globally(server, binlog_expire_logs_seconds=DAYS):
        first = init()
        assert first.exit_code == 0, first.output
        words = "2 full copies could follow the server's binary log instead"
        assert words in " ".join(first.stdout.split())
        text = (tmp_path / "mirrorlake.yaml").read_text()
        assert words in " ".join(text.replace("#", "").split())
        assert modes(text)["kept"] == "full"
        second = init("--mode", "binlog", "--json")
    found = json.loads(second.stdout)
    assert found["log"] == {"tables": 2, "missing": [], "written": True}
    assert found["modes"] == {"full": 2, "binlog": 2, "incremental": 1}
    monkeypatch.setenv("S_PASSWORD", PASSWORD)
    config = load_config(tmp_path / "mirrorlake.yaml")
    assert {c.table: c.mode for c in config.tables} == {
        **dict.fromkeys(("child", "old"), "full"),
        **dict.fromkeys(("kept", "keyless"), "binlog"),
        "moving": "incremental",
    }
    assert config.table("keyless").key == ()


def test_what_is_missing_is_named_with_its_statement(
    server: MariaDB,
    sql: Sql,
    init: Init,  # noqa: F811
    tmp_path: Path,
) -> None:
    sql(TABLES[0])
    short = {"binlog_row_metadata": "MINIMAL", "binlog_expire_logs_seconds": 3600}
    with set_globally(server, **short):
        first = init()
        second = init("--mode", "binlog")
    assert first.exit_code == 0, first.output
    for text in (first.stdout, (tmp_path / "mirrorlake.yaml").read_text()):
        assert "  SET GLOBAL binlog_row_metadata = FULL;" in text
        assert "  SET GLOBAL binlog_expire_logs_seconds = 172800;" in text
    assert modes((tmp_path / "mirrorlake.yaml").read_text()) == {"kept": "full"}
    assert second.exit_code != 0
    assert "binlog_row_metadata: it is MINIMAL" in str(second.exception)
    assert "Run SET GLOBAL binlog_row_metadata = FULL" in str(second.exception)
