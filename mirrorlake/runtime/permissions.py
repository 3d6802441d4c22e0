"""Who may read the files that Mirrorlake writes: the contract's ``lake.permissions`` as a umask.

A umask belongs to a whole process, and every library that writes a file obeys it: PyArrow, SQLite,
Python itself, and the JVM and the servers that a process starts. So there is one place to set it,
and no writer has to think of it. Hadoop alone sets modes of its own: it is given the same umask by
``HADOOP_UMASK``. Object stores have no modes: nothing here concerns them.
"""

from __future__ import annotations

import os
import shlex
import stat
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Final, Literal, TypeAlias

Permissions: TypeAlias = Literal["private", "group", "open"]

UMASKS: Final[Mapping[Permissions, int]] = {"private": 0o077, "group": 0o027, "open": 0o022}
"""What is taken away from 0666 of files and 0777 of folders."""

HADOOP_UMASK: Final = "spark.hadoop.fs.permissions.umask-mode"
"""Spark's setting of the umask by which Hadoop chooses the modes that it sets itself."""

_CHMOD: Final[Mapping[Permissions, str]] = {
    "private": "go-rwx",
    "group": "g-w,o-rwx",
    "open": "go-w",
}


class Umask:
    """The process's umask while anybody holds it: the narrowest that is held, and what it was
    before once nobody does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[int] = Counter()
        self._before = 0

    def hold(self, permissions: Permissions) -> Callable[[], None]:
        """Have files written with these permissions until the answer is called; again does nothing.

        ``group`` and ``open`` widen a narrower umask that the process had.
        """
        mask = UMASKS[permissions]
        with self._lock:
            first = not self._held.total()
            self._held[mask] += 1
            before = self._set()
            if first:
                self._before = before
        released = False

        def release() -> None:
            nonlocal released
            with self._lock:
                if released:
                    return
                released = True
                self._held[mask] -= 1
                if self._held.total():
                    self._set()
                else:
                    os.umask(self._before)

        return release

    def begin_in_child(self) -> None:
        """Give a forked process a new lock: the thread that held the old one is not in it."""
        self._lock = threading.Lock()

    def _set(self) -> int:
        """Set it, and answer what it was."""
        return os.umask(reduce(or_, +self._held))


_PROCESS = Umask()
os.register_at_fork(after_in_child=_PROCESS.begin_in_child)


def hold(permissions: Permissions) -> Callable[[], None]:
    """`Umask.hold` of this process: until the answer is called, or for good."""
    return _PROCESS.hold(permissions)


@contextmanager
def held(permissions: Permissions) -> Generator[None]:
    """`hold` for a block."""
    release = hold(permissions)
    try:
        yield
    finally:
        release()


def hadoop_umask(permissions: Permissions) -> str:
    """A umask as Hadoop reads it.

    >>> hadoop_umask("private")
    '077'
    """
    return f"{UMASKS[permissions]:03o}"


@dataclass(frozen=True)
class Opened:
    """What was found under some paths: how much was looked at, what is open wider than it should
    be, and the folders whose content this user may not see."""

    looked: int
    wider: tuple[Path, ...]
    unseen: tuple[Path, ...]


def find_wider(paths: Iterable[Path], permissions: Permissions) -> Opened:
    """Look at paths and all that is below them; links are not followed, what is not there is left
    out."""
    looked = 0
    wider: list[Path] = []
    unseen: list[Path] = []
    for path in paths:
        for found, mode in _walk(path, unseen):
            looked += 1
            if mode & UMASKS[permissions]:
                wider.append(found)
    return Opened(looked, tuple(wider), tuple(unseen))


def narrowing(paths: Iterable[Path], permissions: Permissions) -> str:
    """The command that takes away from paths, and all below them, what is open wider.

    >>> narrowing([Path("/srv/a lake")], "private")
    "chmod -R go-rwx '/srv/a lake'"
    """
    return shlex.join(["chmod", "-R", _CHMOD[permissions], *map(str, paths)])


def _walk(path: Path, unseen: list[Path]) -> Iterator[tuple[Path, int]]:
    """Each file and folder with its mode. Files come and go while a lake is in use."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError:
        unseen.append(path)
        return
    if stat.S_ISLNK(mode):
        return
    yield path, stat.S_IMODE(mode)
    if not stat.S_ISDIR(mode):
        return
    try:
        inside = list(path.iterdir())
    except FileNotFoundError:
        return
    except OSError:
        unseen.append(path)
        return
    for one in inside:
        yield from _walk(one, unseen)


def narrow(paths: Iterable[Path], permissions: Permissions) -> int:
    """Take away from paths, and all below them, what is open wider; of how many it was.

    Raises:
        OSError: one belongs to somebody else.
    """
    changed = 0
    for path in find_wider(paths, permissions).wider:
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
            path.chmod(mode & ~UMASKS[permissions])
        except FileNotFoundError:
            continue  # files come and go while a lake is in use
        changed += 1
    return changed
