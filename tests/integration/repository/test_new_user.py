"""A new user's way, word by word: each block of a page, in its order, in an empty home, by the real
commands; and what the page says they print."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from demo.mariadb import MariaDB, free_port
from demo.shop import create_shop
from mirrorlake.runtime.cache import cache_path
from tests.support.documents.blocks import ROOT
from tests.support.documents.run_page import Ran, run_page

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


def test_the_tutorial(tmp_path: Path) -> None:
    port = str(free_port())
    left_out = ("make setup",)  # what is here is set up
    ran = run_page(DOCS / "tutorial.md", tmp_path, environment(), {"3399": port}, left_out=left_out)
    for number, one in enumerate(ran):
        ran[number] = Ran(one.block, one.printed.replace(port, "3399"), one.shown)
    assert assert_as_shown(ran) >= 6


@pytest.mark.full
def test_the_quickstart_in_a_fresh_clone(tmp_path: Path) -> None:
    """From `git clone` on; the environment of that clone is made by `make setup`."""
    home, clone = tmp_path / "home", tmp_path / "home" / "mirrorlake"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    with MariaDB.start(tmp_path / "mysql") as server:
        with server.admin() as admin:
            create_shop(admin, customers=300)
        instead = {
            "db.example.com:3306": f"127.0.0.1:{server.port}",
            "path/to/the/clone": os.fspath(clone),
        }
        outside = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        outside["MIRRORLAKE_CACHE"] = os.fspath(cache_path())
        ran = run_page(
            DOCS / "quickstart.md",
            clone,
            {**outside, "HOME": os.fspath(home), **server.client_environment},
            instead,
            sql=server.client_command,
        )
    assert assert_as_shown(ran) >= 1
