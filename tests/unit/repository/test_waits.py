"""Each place that opens a connection, starts a program or takes a lock is in docs/waits.md, with
what bounds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mirrorlake

ENGINE = Path(mirrorlake.__file__).parent
ROOT = ENGINE.parent
# What opens something that may then say nothing for ever.
OPENS = re.compile(
    r"pymysql\.connect\(|create_engine\(|psycopg\.Connection\.connect\(|AuthorizedSession\("
    r"|\brequests\.(?:Session|Request|get|post|put|request)\(|HTTPAdapter\)|_session\.request\("
    r"|\burlopen\(|build_opener\(|subprocess\.(?:run|Popen|check_output)\(|\.Client\("
    r"|sqlite3\.connect\(|create_connection\(|GcsFileSystem\(|(?<!\w)load_catalog\(|\.remote\("
    r"|dbapi\.connect\(|\bSMTP\w*\(|FileLock\(|duckdb\.connect\("
)
# Calls that wait for as long as they like unless they are told how long they may.
UNBOUND = re.compile(r"(?:subprocess\.run|\burlopen|pymysql\.connect|FileLock)\(")
_ROW = re.compile(r"^\| (`[^|]+`) \| ", re.MULTILINE)


def table() -> str:
    return (ROOT / "docs/waits.md").read_text("utf-8").partition("## Every wait")[2]


def sources() -> dict[str, str]:
    return {str(path.relative_to(ENGINE)): path.read_text("utf-8") for path in ENGINE.rglob("*.py")}


def test_every_place_is_in_the_table() -> None:
    listed = {name for row in _ROW.findall(table()) for name in re.findall(r"`([^`]+)`", row)}
    assert listed == {name for name, text in sources().items() if OPENS.search(text)}


def test_what_is_said_to_show_it_is_there() -> None:
    named = set(re.findall(r"`(tests/[^`]+)`", table()))
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("name", sorted(n for n, text in sources().items() if UNBOUND.search(text)))
def test_a_limit_is_given(name: str) -> None:
    text = sources()[name]
    for found in UNBOUND.finditer(text):
        depth, at = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        assert "timeout" in text[found.start() : at], text[found.start() : at]
