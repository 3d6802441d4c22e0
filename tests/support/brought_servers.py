"""Servers that somebody brought, in place of the pinned ones.

``MIRRORLAKE_TEST_MYSQL`` names a folder with ``bin/mysqld`` and ``share`` (its ``english`` messages
and ``charsets``), ``MIRRORLAKE_TEST_MARIADB`` one with ``bin/mariadbd``, ``bin/mariadb`` and
``share`` (its ``mariadb_*.sql`` too). The programs must start as they are, and say their version
with ``--version``; a script that ends in ``exec`` is as good as a program.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mirrorlake.runtime.embedded.files import ServerFiles

MYSQL = "MIRRORLAKE_TEST_MYSQL"
MARIADB = "MIRRORLAKE_TEST_MARIADB"
_PROGRAMS = {MYSQL: "mysqld", MARIADB: "mariadbd"}
_VERSION = re.compile(r"\bVer (\d+\.\d+\.\d+)")


def brought_files(variable: str, layout: Sequence[str]) -> ServerFiles | None:
    """The files of the server that a variable of the environment brings; None where it is unset."""
    if not os.environ.get(variable):
        return None
    folder = Path(os.environ[variable])
    server = folder / "bin" / _PROGRAMS[variable]
    key = hashlib.sha256(f"{server} {version_of(variable)}".encode()).hexdigest()[:16]
    client = folder / "bin" / "mariadb" if variable == MARIADB else None
    return ServerFiles(f"brought-{key}", server, client, folder / "share", None, tuple(layout))


@cache
def version_of(variable: str) -> str | None:
    """The version of the server that a variable brings, ``9.7.4``; None where it is unset."""
    if not os.environ.get(variable):
        return None
    program = Path(os.environ[variable]) / "bin" / _PROGRAMS[variable]
    ran = subprocess.run(
        [program, "--no-defaults", "--version"], capture_output=True, text=True, check=True
    )
    found = _VERSION.search(ran.stdout)
    assert found, f"{program} says no version: {ran.stdout}"
    return found[1]
