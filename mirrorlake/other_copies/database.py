"""The DuckDB database in which two tables are compared: bounded memory, a folder to spill to,
nothing downloaded, and the functions that its SQL has not."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb

from mirrorlake.other_copies.pairings.pairing import MACROS
from mirrorlake.runtime.cache import cache_folder

MEMORY = "1GB"
_FORGOTTEN_SECONDS = 3_600
FOLDER = "against"
"""The folder in the cache that holds what is compared, while it is compared."""


@contextmanager
def working_folder() -> Iterator[Path]:
    """A folder for rows of both sides, which nobody else may read; it is gone afterwards.

    Raises:
        MachineError: the cache folder can't be written.
    """
    home = cache_folder(FOLDER)
    _remove_forgotten(home)
    with tempfile.TemporaryDirectory(prefix=f"{_host()}-{os.getpid()}-", dir=home) as folder:
        yield Path(folder)


def _remove_forgotten(home: Path) -> None:
    """Remove the folders of comparisons that were killed: they hold rows. Of another machine's
    processes nobody here knows whether they run: these stay for an hour."""
    for folder in home.iterdir():
        host, _, pid = folder.name.rpartition("-")[0].rpartition("-")
        if not pid.isdigit():
            continue
        with suppress(FileNotFoundError):  # another comparison removes it, too
            old = time.time() - folder.stat().st_mtime > _FORGOTTEN_SECONDS
            gone = not _runs(int(pid)) if host == _host() else old
            if gone:
                shutil.rmtree(folder, ignore_errors=True)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def open_database(folder: Path) -> Iterator[Any]:
    """A database of the comparison's own, in UTC."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "temp_directory": str(folder / "spill"),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "preserve_insertion_order": False,
    }
    with duckdb.connect(str(folder / "rows.duckdb"), config=settings) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")
        # DuckDB 1.5 makes 0.0 of a -0.0 that it compresses in a file.
        connection.execute("PRAGMA force_compression = 'uncompressed'")
        for macro in MACROS:
            connection.execute(macro)
        connection.create_function("json_alike", _json_alike, ["VARCHAR", "VARCHAR"], "INTEGER")
        connection.create_function("read_wrongly", _read_wrongly, ["VARCHAR", "VARCHAR"], "BOOLEAN")
        connection.create_function("mangled", _mangled, ["BLOB", "VARCHAR"], "BOOLEAN")
        yield connection


def _json_alike(ours: str, theirs: str) -> int:
    """How alike two texts are as JSON: 2: one document, but for spaces, the order of keys and how
    letters are escaped; 1: but for how numbers are written, too; 0: two documents, or none.

    >>> _json_alike('{"a": 1, "b": 2}', '{"b":2,"a":1}'), _json_alike("[1]", "[1.0]")
    (2, 1)
    >>> _json_alike("[1]", "[true]"), _json_alike('{"a":1}', '{"a":1,"a":1}')
    (0, 0)
    """
    try:
        if _canonical(ours, _as_written) == _canonical(theirs, _as_written):
            return 2
        return int(_canonical(ours, _as_number) == _canonical(theirs, _as_number))
    except (ValueError, RecursionError):
        return 0


def _canonical(text: str, number: Any) -> str:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    found = json.loads(
        text,
        parse_int=number,
        parse_float=number,
        parse_constant=refuse,
        object_pairs_hook=_members,
    )
    return json.dumps(found)


def _members(pairs: list[tuple[str, Any]]) -> Any:
    """An object's members in the order of their names; one that names a key twice is as it is."""
    return {"members": sorted(pairs, key=lambda pair: pair[0])}


def _as_written(digits: str) -> Any:
    return {"number": digits}


def _as_number(digits: str) -> Any:
    number = float(digits)
    whole = math.isfinite(number) and number == int(number) and digits.lstrip("-").isdigit()
    return {"number": str(int(digits)) if whole and abs(number) >= 2**53 else repr(number)}


_CHARSETS = ("cp1252", "latin1", "cp850")


def _read_wrongly(ours: str, theirs: str) -> bool:
    """Whether theirs is our UTF-8 read in another charset, or ours read twice: é became Ã©.

    >>> _read_wrongly("é", "Ã©"), _read_wrongly("e", "f")
    (True, False)
    """
    for charset in _CHARSETS:
        for text, other in ((ours, theirs), (theirs, ours)):
            try:
                if text != other and text.encode().decode(charset) == other:
                    return True
            except UnicodeDecodeError:
                continue
    return ours.encode("cp1252", "replace").decode("cp1252") == theirs and ours != theirs


def _mangled(ours: bytes, theirs: str) -> bool:
    """Whether theirs is what a reader makes of bytes that are no text."""
    ways = [("utf-8", "replace"), ("utf-8", "ignore"), ("ascii", "replace"), ("ascii", "ignore")]
    ways += [("latin1", "strict"), ("cp1252", "replace")]
    read = {ours.decode(charset, errors) for charset, errors in ways}
    return theirs in read | {text.rstrip("\0") for text in read} | {str(ours), str(ours)[2:-1]}
