"""The commonest mistakes, one a row: each ends with its exit code and an error that names the thing,
the place and the next step, leaves everything as it was, and is explained by `mirrorlake explain`."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
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
from tests.integration.conftest import HASH_KEY, PASSWORD, USER, Place, share_session
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
OTHER = """\
      other:
        namespaces: {raw: s_common_mistakes__raw, deduped: x, clean: y}
        tables: {t: {mode: full, key: [id]}}
      common_mistakes:"""
"""Another database, whose raw tables would have the same names."""
MISTAKES = {
    # --- the server ---------------------------------------------------------------------------
    "wrong password": Mistake(
        SYNC,
        4,
        (
            "source s (127.0.0.1:",
            "Access denied for user 'mirror'",
            "Check the user, its password",
        ),
        source={"password": "${env:TEST_WRONG}"},
    ),
    "wrong user": Mistake(
        SYNC,
        4,
        (
            "source s (127.0.0.1:",
            "Access denied for user 'miror'",
            "Check the user, its password",
        ),
        source={"user": "miror"},
    ),
    "host misspelt": Mistake(
        SYNC,
        4,
        (
            "source s (no-such-host.invalid:",
            "Name or service not known",
            "Check host and port",
        ),
        source={"host": "no-such-host.invalid"},
    ),
    "nobody at the port": Mistake(
        SYNC,
        4,
        (
            "source s (127.0.0.1:",
            "Connection refused",
            "Check host and port",
        ),
        source={"port": "{free}"},
    ),
    "port of another service": Mistake(
        SYNC,
        4,
        (
            "source s (127.0.0.1:",
            "does not speak MySQL's protocol",
            "another service listens there",
        ),
        source={"port": "{ssh}"},
    ),
    "TLS that the server has not": Mistake(
        SYNC,
        4,
        (
            "source s (127.0.0.1:",
            "SSL is required",
            "write `tls: off`",
        ),
        source={"tls": "required"},
    ),
    "a CA file that is not there": Mistake(
        SYNC,
        4,
        (
            "source s: tls.ca ",
            "nowhere.pem",
            "Name a readable file",
        ),
        source={"tls": {"ca": "nowhere.pem"}},
    ),
    "database misspelt": Mistake(
        SYNC,
        4,
        (
            "Unknown database 'common_mistake'",
            "Check the database's name in the contract",
        ),
        edit=replaced("common_mistakes:", "common_mistake:"),
    ),
    "table misspelt": Mistake(
        SYNC,
        5,
        (
            ".yaml:14:",
            "no table common_mistakes.tt",
            "did you mean 't'?",
        ),
        edit=replaced("          t:", "          tt:"),
    ),
    "a view": Mistake(
        SYNC,
        5,
        (
            "common_mistakes.v is a view, and only tables are mirrored",
            "remove it from the contract",
        ),
        edit=replaced("          t:", "          v:"),
    ),
    "no right to read it": Mistake(
        SYNC,
        4,
        (
            "source s (127.0.0.1:",
            "'narrow'@'%' to database 'common_mistakes'",
            "its grants",
        ),
        source={"user": "narrow"},
    ),
    # --- init -----------------------------------------------------------------------------------
    "init of nothing": Mistake(
        "init", 2, ("Give one of --from (a server) and --from-landing",), explained=False
    ),
    "init without mysql://": Mistake(
        "init --from {user}@127.0.0.1/x",
        2,
        (
            "does not begin with mysql://",
            "Write it like mysql://user:password@host",
        ),
    ),
    "init with an @ in the password": Mistake(
        "init --from mysql://a:p/ss@127.0.0.1/x",
        2,
        (
            "the source's URL can't be read",
            "in a password write @ / ? # % as %40",
        ),
    ),
    "init with a wrong port": Mistake(
        "init --from mysql://a:b@127.0.0.1:33O6/x",
        2,
        (
            "not a number from 1 to 65535",
            "Write it like mysql://",
        ),
    ),
    "init of a missing database": Mistake(
        "init --from {server}/nowhere",
        4,
        (
            "no table of database nowhere",
            "GRANT SELECT on it",
        ),
    ),
    "init with a pattern of nothing": Mistake(
        "init --from {url} --tables tt --force",
        2,
        (
            "--tables 'tt' matches no table",
            "Did you mean 'common_mistakes.t'?",
        ),
    ),
    "init over a file": Mistake(
        "init --from {url} --output {contract}",
        2,
        (
            ".yaml is there already",
            "--force to overwrite it",
        ),
    ),
    "init into a folder of others": Mistake(
        "init --from {url} --output /proc/x.yaml",
        2,
        (
            "/proc/x.yaml can't be written",
            "Give another --output",
        ),
    ),
    "init with a mode that is none": Mistake(
        "init --from {url} --mode t=fast --output n",
        2,
        (
            "--mode 't=fast'",
            "Write --mode binlog",
        ),
    ),
    "init with a rule that is none": Mistake(
        "init --from {url} --column t.name=hide --output n", 2, ()
    ),
    "init with a hash of a float": Mistake(
        "init --from {url} --column t.price=hash --output n", 2, ()
    ),
    # --- the contract file ----------------------------------------------------------------------
    "no contract file": Mistake(
        "sync --config nowhere.yaml",
        2,
        (
            "no config file nowhere.yaml",
            "`mirrorlake init --from mysql://…` writes",
        ),
    ),
    "a folder as contract file": Mistake(
        "sync --config {folder}",
        2,
        (
            "can't be read: Is a directory",
            "Check the path",
        ),
    ),
    "an empty contract file": Mistake(
        SYNC,
        2,
        (
            ".yaml:1: the config is empty",
            "`mirrorlake init` writes a first one",
        ),
        edit=lambda _: "",
    ),
    "not UTF-8": Mistake(
        SYNC,
        2,
        (
            "is not UTF-8 (byte 2)",
            "Save it as UTF-8",
        ),
        edit=lambda text: "# \udce4\n" + text,
    ),
    "a tab in YAML": Mistake(
        SYNC,
        2,
        (
            ".yaml:",
            "a tab; YAML is indented with spaces",
        ),
        edit=replaced("    host:", "\thost:"),
    ),
    "a bracket that is not closed": Mistake(
        SYNC,
        2,
        (
            ".yaml:",
            "not valid YAML",
        ),
        edit=replaced("mode: incremental", "mode: [incremental"),
    ),
    "a table twice": Mistake(
        SYNC,
        2,
        (
            ".yaml:",
            "tables.t: this key is already on line 14",
        ),
        edit=replaced("          t:", "          t: {mode: full}\n          t:"),
    ),
    "a list for a mapping": Mistake(
        SYNC,
        2,
        (
            ".yaml:",
            "a mapping is expected",
        ),
        edit=replaced("          t:", "          - t:"),
    ),
    "unknown section": Mistake(
        SYNC,
        2,
        (".yaml:3:1: lakes: unknown key; did you mean 'lake'?",),
        edit=replaced("lake:", "lakes:"),
    ),
    "unknown key": Mistake(
        SYNC, 2, ("t.curser: unknown key; did you mean 'cursor'?",), table={"curser": "modified_at"}
    ),
    "mode misspelt": Mistake(
        SYNC,
        2,
        (
            "t.mode: 'incremental '",
            "did you mean 'incremental'?",
        ),
        table={"mode": "incremental "},
    ),
    "a newer version": Mistake(
        SYNC,
        2,
        ("version: this release reads version 1 of the file, not 2",),
        edit=replaced("version: 1", "version: 2"),
    ),
    "a variable that is not set": Mistake(
        SYNC,
        2,
        (
            "s.password: the environment variable SHOP_PASWORD is not set",
            "Set SHOP_PASWORD",
        ),
        source={"password": "${env:SHOP_PASWORD}"},
    ),
    "a variable written otherwise": Mistake(
        SYNC,
        2,
        ("s.password: a secret is not written into this file: write ${env:NAME}",),
        source={"password": "$SHOP_PASSWORD"},
    ),
    "a duration in words": Mistake(
        SYNC,
        2,
        ("t.settle: '1 hour' is not a duration: write it like 15s",),
        table={"settle": "1 hour"},
    ),
    "a start in the future": Mistake(
        SYNC,
        2,
        (
            "t.start: ",
            "is in the future",
        ),
        table={"start": TOMORROW},
    ),
    "a time zone that is none": Mistake(
        SYNC,
        2,
        ("s.time_zone: unknown time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?",),
        source={"time_zone": "Europe/Berln"},
    ),
    "incremental without a key": Mistake(
        SYNC,
        2,
        (
            "t.key: mode incremental needs the columns of a unique key",
            "or use mode: full",
        ),
        table={"key": []},
    ),
    "a cursor that is never read": Mistake(
        SYNC,
        2,
        (
            "t.cursor: 'modified_at' is marked pci: never",
            "name another column",
        ),
        table={"columns": {"modified_at": {"pci": "never"}}},
    ),
    "an unknown rule": Mistake(
        SYNC,
        2,
        ("name.pii: 'hide' is not 'drop', 'null', 'hash', 'mask' or 'show'",),
        table={"columns": {"name": {"pii": "hide"}}},
    ),
    "a hash in a view": Mistake(
        SYNC,
        2,
        (
            "name.pii: pii: hash in a view",
            "use clean: table",
        ),
        table={"columns": {"name": {"pii": "hash"}}},
    ),
    "two tables to one name": Mistake(
        SYNC,
        2,
        (".yaml:",),
        edit=replaced("      common_mistakes:", OTHER),
    ),
    # --- the contract against MySQL -----------------------------------------------------------
    "a cursor that can be NULL": Mistake(
        SYNC,
        5,
        (
            ".yaml:15:",
            "cursor loose can be NULL",
            "Declare loose NOT NULL",
        ),
        table={"cursor": "loose"},
    ),
    "a key that is not unique": Mistake(
        SYNC,
        5,
        (
            "does not keep (name) unique",
            "Name the columns of its primary key",
        ),
        table={"key": ["name"]},
    ),
    "a rule for no column": Mistake(
        SYNC,
        5,
        (
            ".yaml:",
            "has no column 'e_mail'",
            "Its columns are: id, name",
        ),
        table={"columns": {"e_mail": {"pii": "drop"}}},
    ),
    "a cursor without an index": Mistake(
        SYNC,
        5,
        (
            "no index begins with cursor late",
            "Add an index on late in MySQL",
        ),
        table={"cursor": "late"},
    ),
    "a mask of a number": Mistake(
        SYNC,
        2,
        (
            ".yaml:",
            "`pii: mask` on price, which is double",
            "Use null, drop or hash",
        ),
        table={"columns": {"price": {"pii": "mask"}}},
    ),
    # --- the lake and the ledger ----------------------------------------------------------------
    "a lake that can't be written": Mistake(
        SYNC,
        6,
        (
            "the lake's folder /proc/lake can't be written",
            "lake.warehouse",
        ),
        sections={"lake": {"warehouse": "/proc/lake"}},
    ),
    "a file for a lake": Mistake(
        SYNC,
        6,
        (
            "the lake's folder /proc/version can't be written",
            "lake.warehouse",
        ),
        sections={"lake": {"warehouse": "/proc/version"}},
    ),
    "a ledger that can't be written": Mistake(
        SYNC,
        7,
        (
            "the ledger's folder /proc/x can't be made",
            "ledger.url",
        ),
        sections={"ledger": {"url": "sqlite:////proc/x/l.db"}},
    ),
    "a ledger that is no database": Mistake(
        SYNC,
        7,
        (
            "text.db is not usable: file is not a database",
            "move it away",
        ),
        sections={"ledger": {"url": "sqlite:///text.db"}},
    ),
    "a ledger of a newer version": Mistake(
        SYNC,
        7,
        (
            "the ledger has version 999",
            "Install the Mirrorlake that wrote it",
        ),
        sections={"ledger": {"url": "sqlite:///newer.db"}},
    ),
    "a ledger that nobody knows": Mistake(
        SYNC,
        7,
        (
            "can't be kept in 'mongodb'",
            "Set ledger.url to sqlite:///",
        ),
        sections={"ledger": {"url": "mongodb://a/b"}},
    ),
    "a Postgres that is not there": Mistake(
        SYNC,
        7,
        (
            "127.0.0.1",
            "Connection refused",
        ),
        sections={"ledger": {"url": "postgresql://a@127.0.0.1:{free}/x"}},
    ),
    # --- the command line -----------------------------------------------------------------------
    "a command misspelt": Mistake(
        "snyc", 2, ("No such command 'snyc'. Did you mean 'sync'?",), explained=False
    ),
    "an option misspelt": Mistake(
        "sync --job 3",
        2,
        (
            "No such option '--job'",
            "'--jobs'",
        ),
        explained=False,
    ),
    "a table that no contract has": Mistake(
        "sync tt",
        2,
        (
            "no table 'tt' in ",
            "did you mean 't'?",
            "`mirrorlake status` lists the tables",
        ),
    ),
    "a smaller copy of all tables": Mistake(
        "sync --accept-smaller",
        2,
        (
            "--accept-smaller is for tables",
            "Name them: mirrorlake sync TABLE",
        ),
    ),
    "a snapshot of a table of a server": Mistake(
        "publish t",
        2,
        (
            "table 't' of ",
            "is read from its server: no snapshot of it lands",
            "publish is for tables of mode snapshot",
        ),
    ),
    "metrics into a folder that is not there": Mistake(
        "metrics --output {folder}/nowhere/x.prom",
        3,
        (
            "/nowhere/x.prom could not be written: No such file or directory",
            "make that folder",
        ),
    ),
    "a check before the first sync": Mistake(
        "check t",
        8,
        (
            "s.common_mistakes.t is not mirrored yet",
            "Sync it first",
        ),
    ),
    "a day that is none": Mistake(
        "check t --partition 2026-02-30",
        2,
        ("Invalid value for '--partition': '2026-02-30'",),
        explained=False,
    ),
    "keys written otherwise": Mistake(
        "check t --keys 1-9",
        2,
        (
            "--keys '1-9' is no range of keys",
            "Write --keys a..b",
        ),
    ),
    "a report over another file": Mistake(
        "report --output {contract}",
        2,
        (
            ".yaml: there is a file of that name",
            "Name another file",
        ),
    ),
    "a backup that is not there": Mistake(
        "restore nowhere.zip",
        6,
        (
            "nowhere.zip is no complete backup",
            "Name the folder of one backup",
        ),
    ),
    "a source that is none": Mistake(
        "hold shop",
        2,
        (
            ".yaml has no source 'shop'",
            "Its sources are: s",
        ),
    ),
    "an error that is none": Mistake(
        "explain Sauce",
        2,
        (
            "nothing is known of 'Sauce'",
            "`mirrorlake explain` lists every error",
        ),
    ),
    "a trial over files": Mistake(
        "try --keep {folder}",
        2,
        (
            "--keep /",
            "holds something already",
            "Give a folder that is empty",
        ),
    ),
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


SELDOM = {
    "a mask of a number",
    "a cursor that is never read",
    "init with a hash of a float",
    "keys written otherwise",
    "a rule for no column",
    "a source that is none",
    "init into a folder of others",
    "a folder as contract file",
    "wrong user",
    "init with a rule that is none",
    "an unknown rule",
    "a file for a lake",
    "a duration in words",
    "init with a wrong port",
    "a variable written otherwise",
    "a day that is none",
    "init of nothing",
}
"""In full runs alone: others of their kind are always tried."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full) if n in SELDOM else n for n in MISTAKES]
)
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
    """What is there, but for the contract, and empty folders and databases that are made first."""
    made = ("ledger.db", f"{command.database}.yaml")
    found = (p.relative_to(command.place.folder) for p in command.place.folder.rglob("*"))
    kept = (p for p in found if p.parts[0] not in ("lake", ".mirrorlake"))
    return {str(p) for p in kept if not p.name.startswith(made)}


FULL_DISK = """
import resource, sys
from mirrorlake.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
main()
"""
"""A file that may not become larger, as on a disk that is full."""


@pytest.mark.full
def test_a_disk_that_is_full(command: CommandLine, server: MariaDB) -> None:
    with server.admin(command.database) as admin, admin.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE large (id INT PRIMARY KEY, v BLOB)")
        cursor.execute("INSERT INTO large SELECT seq, RANDOM_BYTES(500) FROM seq_1_to_2000")
    path = command.contract({"large": {"mode": "full", "key": ["id"]}})
    words = [sys.executable, "-c", FULL_DISK, "700000", "sync", "--config", str(path)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, env=environment())
    [error] = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert (ran.returncode, "Traceback" in ran.stderr) == (6, False), ran.stderr
    assert "See that the warehouse has room" in error
    [explained, *_] = find(error)
    assert explained.error == "LakeError"


def environment() -> dict[str, str]:
    secrets = {"TEST_PASSWORD": PASSWORD, "TEST_HASH_KEY": HASH_KEY}
    return {**os.environ, **secrets, "PYTHONPATH": str(Path(__file__).parents[3])}
