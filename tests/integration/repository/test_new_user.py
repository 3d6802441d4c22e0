"""A new user's way, word by word: each block of a page, in its order, in an empty home, by the real
commands; and what the page says they print."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from mirrorlake.runtime.cache import cache_path
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import free_port
from mirrorlake.trial.shop import create_shop
from tests.support.documents.blocks import ALL_BLOCKS, ROOT, Block
from tests.support.documents.run_page import Ran, run_page
from tests.support.postgres import PASSWORD, USER, running_postgres

DOCS = ROOT / "docs"
BIN = ROOT / ".venv" / "bin"
VOLATILE = (
    r"\d{4}-\d\d-\d\d([ T][\d:.]+)?",
    r"\d{8}T\d{6}Z-[0-9a-f]{8}",
    r"\b[0-9a-f]{64}\b",
    r"\b\d+\.\d+ s\b",
    r"(?<=\d|…|-)  +\d+\.\d+",  # in a table: megabytes, rates, seconds
    r"[\d,]+ (bytes|files|row versions)",
    r"(?<= live) +\d+",
)


def environment() -> dict[str, str]:
    """The commands of this tree, and the cache with what was downloaded; nothing else of ours."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    cache = {"MIRRORLAKE_CACHE": os.fspath(cache_path())}
    return {"PATH": path, "PYTHONPATH": os.fspath(ROOT), "LC_ALL": "C.UTF-8", **cache}


def normal(text: str) -> list[str]:
    """Lines without what differs from run to run: times, seconds and rates, ids, sizes, the rows of
    a live window; and without the width of columns, which follows from these."""
    for volatile in VOLATILE:
        text = re.sub(volatile, "…", text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [re.sub(r"─+", "─", line) for line in lines if line]


def assert_as_shown(ran: Sequence[Ran]) -> int:
    """Each block printed what the page says; how many pages' texts were compared."""
    shown = [one for one in ran if one.shown]
    for one in shown:
        assert normal(one.printed) == normal(one.shown), f"{one.block.place}:\n{one.printed}"
    return len(shown)


def tutorial(home: Path) -> list[Ran]:
    """The blocks of the tutorial that were run; what is here is set up already."""
    port = str(free_port())
    ran = run_page(
        *(DOCS / "tutorial.md", home, environment(), {"3399": port}),
        left_out=("make setup",),
    )
    return [replace(one, printed=one.printed.replace(port, "3399")) for one in ran]


@pytest.mark.full
def test_the_tutorial(tmp_path: Path) -> None:
    assert assert_as_shown(tutorial(tmp_path)) == 11


def test_another_output_than_the_page_has_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\necho 7 rows, 1.5 s\n```\n\n```text\n7 rows, 2.25 s\n```\n")
    assert assert_as_shown(run_page(page, tmp_path, environment(), {})) == 1
    page.write_text(page.read_text().replace("7 rows, 2", "8 rows, 2"))
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        assert_as_shown(run_page(page, tmp_path, environment(), {}))
    page.write_text("```sh\nfalse\n```\n")
    with pytest.raises(AssertionError, match="exit 1"):
        run_page(page, tmp_path, environment(), {})


def test_roles_and_databases_are_made_as_the_pages_say() -> None:
    """Statements that no parser of ours reads, on the server that they are for; MySQL's are in the
    quickstart."""
    blocks = [b for b in ALL_BLOCKS if b.language == "sql" and b.text.startswith("CREATE ")]
    of_postgres = [b for b in blocks if "IDENTIFIED BY" not in b.text]
    assert (len(blocks), len(of_postgres)) == (4, 3)
    with running_postgres() as postgres, postgres_connection(postgres.port) as connection:
        for block in of_postgres:
            for statement in statements(block):
                connection.execute(statement)


def postgres_connection(port: int) -> psycopg.Connection[tuple[object, ...]]:
    account = {"user": USER, "password": PASSWORD, "dbname": "postgres"}
    return psycopg.connect(host="127.0.0.1", port=port, autocommit=True, **account)


def statements(block: Block) -> list[str]:
    text = re.sub(r"--.*", "", block.text)
    return [one.strip() for one in text.split(";") if one.strip()]


def quickstart(server: MariaDB, folder: Path, clone: Path, until: str = "") -> list[Ran]:
    """The blocks of the quickstart that were run, from a clone, over a shop on a server."""
    with server.admin() as admin:
        create_shop(admin, customers=300)
    libraries = f"LD_LIBRARY_PATH={server.client_environment.get('LD_LIBRARY_PATH', '')}"
    outside = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": os.fspath(folder)}
    outside["MIRRORLAKE_CACHE"] = os.fspath(cache_path())
    instead = {
        "db.example.com:3306": f"127.0.0.1:{server.port}",
        "path/to/the/clone": os.fspath(clone),
    }
    return run_page(
        *(DOCS / "quickstart.md", clone, {**outside, **(environment() if until else {})}, instead),
        left_out=("make",) if until else (),
        until=until,
        sql=["env", libraries, *server.client_command],
        seconds=1_100,
    )


def test_the_quickstart_begins(tmp_path: Path) -> None:
    """Its account and its contract; all of it, in `make test-full`."""
    with MariaDB.start(tmp_path / "mysql") as server:
        assert assert_as_shown(quickstart(server, tmp_path, ROOT, until="mkdir -p ~/shop")) == 1


@pytest.mark.full
def test_the_quickstart_in_a_fresh_clone(tmp_path: Path) -> None:
    """From `git clone` on; the environment of that clone is made by `make setup`."""
    home, clone = tmp_path / "home", tmp_path / "home" / "mirrorlake"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    with MariaDB.start(tmp_path / "mysql") as server:
        assert assert_as_shown(quickstart(server, home, clone)) == 1
