"""The commonest mistakes, one a row: each ends with its exit code and an error that names the thing,
the place and the next step, leaves everything as it was, and is explained by `mirrorlake explain`."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.cli.explain.command import find
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import free_port
from mirrorlake.runtime.permissions import held
from tests.integration.conftest import PASSWORD, USER, Place, share_session
from tests.integration.operations.test_bad_input import GOOD, GOOD_TABLE, CommandLine, Ran

TOMORROW = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()
Edit = Callable[[str], str]


@dataclass(frozen=True)
class Mistake:
    """What somebody did wrong, and what is said of it.

    Attributes:
        command: its words; ``{url}``, ``{folder}`` and the like are filled in.
        code: the exit code.
        says: parts of the error: the thing, the place, the next step.
        source: settings of the source; of other sections ``sections``; of table t ``table``.
        edit: changes the contract's text.
        explained: whether `explain` knows the error; click's own need none.
    """

    command: str
    code: int
    says: tuple[str, ...]
    source: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sections: Mapping[str, Any] = field(default_factory=dict[str, Any])
    table: Mapping[str, Any] = field(default_factory=dict[str, Any])
    edit: Edit | None = None
    explained: bool = True


def replaced(old: str, new: str) -> Edit:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return edit


SYNC = "sync"
MISTAKES = {
    # --- the server ---------------------------------------------------------------------------
    "wrong password": Mistake(SYNC, 4, (), source={"password": "${env:TEST_WRONG}"}),
    "wrong user": Mistake(SYNC, 4, (), source={"user": "miror"}),
    "host misspelt": Mistake(SYNC, 4, (), source={"host": "no-such-host.invalid"}),
    "nobody at the port": Mistake(SYNC, 4, (), source={"port": "{free}"}),
    "port of another service": Mistake(SYNC, 4, (), source={"port": "{ssh}"}),
    "TLS that the server has not": Mistake(SYNC, 4, (), source={"tls": "required"}),
    "a CA file that is not there": Mistake(SYNC, 4, (), source={"tls": {"ca": "nowhere.pem"}}),
    "database misspelt": Mistake(SYNC, 4, (), edit=lambda text: text.replace("{database}", "shpo")),
    "table misspelt": Mistake(SYNC, 5, (), edit=replaced("          t:", "          tt:")),
    "a view": Mistake(SYNC, 5, (), edit=replaced("          t:", "          v:")),
    "no right to read it": Mistake(SYNC, 4, (), source={"user": "narrow"}),
    # --- init -----------------------------------------------------------------------------------
    "init of nothing": Mistake("init", 2, (), explained=False),
    "init without mysql://": Mistake("init --from {user}@127.0.0.1/x", 2, ()),
    "init with an @ in the password": Mistake("init --from mysql://a:p@ss@127.0.0.1/x", 2, ()),
    "init with a wrong port": Mistake("init --from mysql://a:b@127.0.0.1:33O6/x", 2, ()),
    "init of a missing database": Mistake("init --from {server}/nowhere", 4, ()),
    "init with a pattern of nothing": Mistake("init --from {url} --tables tt --force", 2, ()),
    "init over a file": Mistake("init --from {url} --output {contract}", 2, ()),
    "init into a folder of others": Mistake("init --from {url} --output /proc/x.yaml", 2, ()),
    "init with a mode that is none": Mistake("init --from {url} --mode t=fast --output n", 2, ()),
    "init with a rule that is none": Mistake(
        "init --from {url} --column t.name=hide --output n", 2, ()
    ),
    "init with a hash of a float": Mistake(
        "init --from {url} --column t.price=hash --output n", 2, ()
    ),
    # --- the contract file ----------------------------------------------------------------------
    "no contract file": Mistake("sync --config nowhere.yaml", 2, ()),
    "a folder as contract file": Mistake("sync --config {folder}", 2, ()),
    "an empty contract file": Mistake(SYNC, 2, (), edit=lambda _: ""),
    "not UTF-8": Mistake(SYNC, 2, (), edit=lambda text: "# \udce4\n" + text),
    "a tab in YAML": Mistake(SYNC, 2, (), edit=replaced("    host:", "\thost:")),
    "a bracket that is not closed": Mistake(SYNC, 2, (), edit=replaced("key: [id]", "key: [id")),
    "a table twice": Mistake(SYNC, 2, (), edit=lambda t: t + "          t: {mode: full}\n"),
    "a list for a mapping": Mistake(SYNC, 2, (), edit=replaced("          t:", "          - t:")),
    "unknown section": Mistake(SYNC, 2, (), edit=replaced("lake:", "lakes:")),
    "unknown key": Mistake(SYNC, 2, (), table={"curser": "modified_at"}),
    "mode misspelt": Mistake(SYNC, 2, (), table={"mode": "incremental "}),
    "a newer version": Mistake(SYNC, 2, (), edit=replaced("version: 1", "version: 2")),
    "a variable that is not set": Mistake(SYNC, 2, (), source={"password": "${env:SHOP_PASWORD}"}),
    "a variable written otherwise": Mistake(SYNC, 2, (), source={"password": "$SHOP_PASSWORD"}),
    "a duration in words": Mistake(SYNC, 2, (), table={"settle": "1 hour"}),
    "a start in the future": Mistake(SYNC, 2, (), table={"start": TOMORROW}),
    "a time zone that is none": Mistake(SYNC, 2, (), source={"time_zone": "Europe/Berln"}),
    "incremental without a key": Mistake(SYNC, 2, (), table={"key": []}),
    "a cursor that is never read": Mistake(
        SYNC, 2, (), table={"columns": {"modified_at": {"pci": "never"}}}
    ),
    "an unknown rule": Mistake(SYNC, 2, (), table={"columns": {"name": {"pii": "hide"}}}),
    "a hash in a view": Mistake(SYNC, 2, (), table={"columns": {"name": {"pii": "hash"}}}),
    "two tables to one name": Mistake(
        SYNC, 2, (), edit=lambda t: t + "          T: {mode: full}\n"
    ),
    # --- the contract against MySQL -----------------------------------------------------------
    "a cursor that can be NULL": Mistake(SYNC, 5, (), table={"cursor": "loose"}),
    "a key that is not unique": Mistake(SYNC, 5, (), table={"key": ["name"]}),
    "a rule for no column": Mistake(SYNC, 5, (), table={"columns": {"e_mail": {"pii": "drop"}}}),
    "a cursor without an index": Mistake(SYNC, 5, (), table={"cursor": "late"}),
    "a mask of a number": Mistake(SYNC, 2, (), table={"columns": {"price": {"pii": "mask"}}}),
    # --- the lake and the ledger ----------------------------------------------------------------
    "a lake that can't be written": Mistake(
        SYNC, 6, (), sections={"lake": {"warehouse": "/proc/lake"}}
    ),
    "a file for a lake": Mistake(SYNC, 6, (), sections={"lake": {"warehouse": "/proc/version"}}),
    "a ledger that can't be written": Mistake(
        SYNC, 7, (), sections={"ledger": {"url": "sqlite:////proc/x/l.db"}}
    ),
    "a ledger that is no database": Mistake(
        SYNC, 7, (), sections={"ledger": {"url": "sqlite:///text.db"}}
    ),
    "a ledger of a newer version": Mistake(
        SYNC, 7, (), sections={"ledger": {"url": "sqlite:///newer.db"}}
    ),
    "a ledger that nobody knows": Mistake(
        SYNC, 2, (), sections={"ledger": {"url": "mongodb://a/b"}}
    ),
    "a Postgres that is not there": Mistake(
        SYNC, 7, (), sections={"ledger": {"url": "postgresql://a:b@127.0.0.1:{free}/x"}}
    ),
    # --- the command line -----------------------------------------------------------------------
    "a command misspelt": Mistake("snyc", 2, (), explained=False),
    "an option misspelt": Mistake("sync --job 3", 2, (), explained=False),
    "a table that no contract has": Mistake("sync tt", 2, ()),
    "a smaller copy of all tables": Mistake("sync --accept-smaller", 2, ()),
    "a check before the first sync": Mistake("check t", 8, ()),
    "a day that is none": Mistake("check t --partition 2026-02-30", 2, (), explained=False),
    "keys written otherwise": Mistake("check t --keys 1-9", 2, ()),
    "a report over another file": Mistake("report --output {contract}", 2, ()),
    "a backup that is not there": Mistake("restore nowhere.zip", 2, ()),
    "a source that is none": Mistake("hold shop", 2, ()),
    "an error that is none": Mistake("explain Sauce", 2, ()),
    "a trial over files": Mistake("try --keep {folder}", 2, ()),
}


@pytest.fixture(scope="module")
def ssh() -> Iterator[int]:
    """The port of a service that speaks, and not MySQL's protocol."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        threading.Thread(target=greet, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def shop(server: MariaDB) -> Iterator[str]:
    """A database that all rows share: nothing is read from it."""
    name = "common_mistakes"
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE DATABASE {name}")
        cursor.execute(f"USE {name}")
        cursor.execute(GOOD_TABLE)
        cursor.execute("ALTER TABLE t ADD late DATETIME NOT NULL")
        cursor.execute("CREATE VIEW v AS SELECT * FROM t")
    server.create_user("narrow", PASSWORD, {"mysql.*": "SELECT"})
    yield name
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture
def command(
    place: Place,
    server: MariaDB,
    shop: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    """The command line, in a folder of its own with an empty ledger."""
    monkeypatch.setenv("TEST_WRONG", "n0t-the-password")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    share_session(place, monkeypatch)
    (tmp_path / "text.db").write_text("this is no database, and longer than a header of one\n" * 9)
    with held("private"):
        Ledger("sqlite:///newer.db")
    with sqlite3.connect("newer.db") as newer:
        newer.execute("UPDATE mirrorlake_meta SET value = '999' WHERE name = 'version'")
    own = Place(tmp_path, place.lake, place.spark)
    return CommandLine(own, server, shop, monkeypatch, capsys)


def filled(value: Any, names: Mapping[str, Any]) -> Any:
    """A setting with what is known only now."""
    if isinstance(value, str) and value.startswith("{") and value.endswith("}"):
        return names[value[1:-1]]
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", str(text))
        return value
    if isinstance(value, Mapping):
        return {key: filled(one, names) for key, one in value.items()}
    return value


def run(mistake: Mistake, command: CommandLine, ssh: int) -> Ran:
    folder = command.place.folder
    at = f"mysql://{USER}:{'%40'.join(['p', 'ss%20w%2F%C3%B6rd%25'])}@127.0.0.1:{command.server.port}"
    names = {
        **{"free": free_port(), "ssh": ssh, "folder": folder, "server": at},
        **{"url": f"{at}/{command.database}", "contract": folder / f"{command.database}.yaml"},
    }
    sections = {name: filled(one, names) for name, one in mistake.sections.items()}
    table = {**GOOD, **mistake.table}
    path = command.contract({"t": table}, source=filled(mistake.source, names), **sections)
    if mistake.edit is not None:
        text = mistake.edit(path.read_text("utf-8"))
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch = command.monkeypatch
    monkeypatch.setenv("MIRRORLAKE_CONFIG", str(path))
    return command.run(*(filled(word, names) for word in mistake.command.split()))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_common_mistake(name: str, command: CommandLine, ssh: int) -> None:
    mistake = MISTAKES[name]
    before = files(command)
    ran = run(mistake, command, ssh)
    print(f"=== {name}: {ran.code}\n{ran.err}{ran.out}")
    assert ran.code == mistake.code, ran.err
    assert "Traceback" not in ran.err
    for secret in (PASSWORD, "n0t-the-password", "p@ss"):
        assert secret not in ran.err
    for words in mistake.says:
        assert words in ran.err, ran.err
    if mistake.explained:
        [explained, *_] = find(ran.err)
        assert explained.code == mistake.code, explained
    assert files(command) == before


def files(command: CommandLine) -> set[str]:
    """What is there, but for an empty ledger and catalog, and the contract."""
    made = ("ledger.db", f"{command.database}.yaml")
    found = (p.relative_to(command.place.folder) for p in command.place.folder.rglob("*"))
    return {str(p) for p in found if p.parts[0] != "lake" and not p.name.startswith(made)}
