"""The one folder that holds everything Mirrorlake downloads or unpacks.

``$MIRRORLAKE_CACHE``, else ``$XDG_CACHE_HOME/mirrorlake``, else ``~/.cache/mirrorlake``.
``tools/bootstrap.py`` follows the same rule and can't import this module (it runs first).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mirrorlake.errors import MachineError

# Longer than the slowest thing done under a lock: 150 MB over a thin line.
LOCK_SECONDS = 1800.0


def cache_path() -> Path:
    """Return where the cache folder is, or would be; creates nothing."""
    explicit = os.environ.get("MIRRORLAKE_CACHE")
    if explicit:
        return Path(explicit).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification: a relative path in it is invalid and ignored.
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache"
    return base / "mirrorlake"


def cache_folder(name: str) -> Path:
    """Return a folder inside the cache folder, created if it was not there.

    Raises:
        MachineError: it can't be created.
    """
    folder = cache_path() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder


def unwritable(path: Path, error: OSError) -> MachineError:
    """Return the error for a path in the cache folder that can't be written."""
    return MachineError(
        f"The cache folder can't be written: {path}: {error.strerror or error}",
        next_step=(
            "Make room or make it writable, or set MIRRORLAKE_CACHE to a folder that is "
            f"(now: {cache_path()})"
        ),
    )


@contextmanager
def cache_lock(name: str, seconds: float = LOCK_SECONDS) -> Generator[None]:
    """Hold the cache folder's lock ``name``: one process at a time, on this machine.

    Raises:
        MachineError: another process held it for longer than ``seconds``, or it can't be written.
    """
    path = cache_folder("locks") / f"{name}.lock"
    lock = FileLock(path, timeout=seconds)
    try:
        lock.acquire()
    except Timeout as error:
        raise MachineError(
            f"Another process has held {path} for {seconds:.0f} s",
            next_step="Wait for it or end it, then run this again",
            retryable=True,
        ) from error
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        yield
    finally:
        lock.release()


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file so that nobody ever sees half of it, not even after a kill or a full disk.

    Raises:
        MachineError: it can't be written.
    """
    building: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        building = Path(name)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        building.chmod(mode)
        building.replace(path)
    except OSError as error:
        if building is not None:
            building.unlink(missing_ok=True)
        if path.is_relative_to(cache_path()):
            raise unwritable(path, error) from error
        raise MachineError(
            f"{path} could not be written: {error.strerror or error}",
            next_step=f"Make room in {path.parent}, or make that folder, or make it writable",
        ) from error
