"""The files of an embedded server: unpacked once into the cache folder, with a fresh data folder.

What MariaDB needs is in ``mariadb_files.py``. Not here: anything that runs a server
(``server.py``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.errors import MachineError
from mirrorlake.runtime.cache import cache_folder, cache_lock

_INITIALISE_SECONDS = 300.0


@dataclass(frozen=True)
class ServerFiles:
    """Where a server is.

    Attributes:
        key: names the build; equal keys are equal files.
        client: its text client; None where the build has none.
        share: its messages and charsets; None for a system's own server.
        libraries: where its libraries are; None for a system's own server.
        layout: arguments that were fixed when its data folder was made.
    """

    key: str
    server: Path
    client: Path | None
    share: Path | None
    libraries: Path | None
    layout: tuple[str, ...]

    def environment(self) -> dict[str, str]:
        """The environment in which its programs find their libraries."""
        env = dict(os.environ)
        if self.libraries is not None:
            env["LD_LIBRARY_PATH"] = str(self.libraries)
        return env

    def arguments(self) -> list[str]:
        """The arguments that each start of this server needs."""
        words = [f"--lc-messages-dir={self.share}"] if self.share is not None else []
        if self.share is not None:
            words.append(f"--character-sets-dir={self.share / 'charsets'}")
        # A server refuses to run as root unless its user is given by name.
        return [*words, *self.layout, *(["--user=root"] if os.geteuid() == 0 else [])]


def make_once(folder: Path, make: Callable[[Path], None], prefix: str) -> None:
    """Have ``make`` fill a folder below the cache, unless it is there; it appears whole or not at
    all, and one process at a time makes it."""
    if folder.exists():
        return
    with cache_lock(folder.parent.name):
        if folder.exists():
            return
        building = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix))
        try:
            make(building)
            building.rename(folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)


def copy_data(kind: str, key: str, initialise: Callable[[Path], None], target: Path) -> None:
    """Make ``target`` a fresh data folder: a copy of one that was initialised once per machine.

    Raises:
        MachineError: the server can't initialise a data folder.
    """
    template = cache_folder(kind) / f"data-{key}"
    make_once(template, initialise, "initialising-")
    building = Path(tempfile.mkdtemp(dir=target.parent, prefix="data-"))
    try:
        shutil.copytree(template, building, dirs_exist_ok=True)
        building.rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def run_initialiser(
    title: str, files: ServerFiles, command: Sequence[str], script: bytes = b""
) -> None:
    """Run the program that makes a data folder.

    Raises:
        MachineError: it failed; with its own last word.
    """
    try:
        ran = subprocess.run(
            command,
            input=script,
            env=files.environment(),
            capture_output=True,
            check=False,
            timeout=_INITIALISE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise MachineError(
            f"The embedded {title} makes no data folder within {error.timeout:.0f} s",
            next_step=f"Check that {files.server} runs on this machine",
        ) from error
    if ran.returncode != 0:
        lines = ran.stderr.decode(errors="replace").strip().splitlines() or ["no output"]
        said = [line for line in lines if "ERROR" in line] or lines
        raise MachineError(
            f"The embedded {title} can't make its data folder: {said[-1]}",
            next_step=f"Check that {files.server} runs on this machine",
        )


def not_unpacked(title: str, home: Path, error: Exception) -> MachineError:
    """The error for a server whose files can't be unpacked."""
    return MachineError(
        f"The embedded {title} can't be unpacked into {home}: {error}",
        next_step="Make room in the cache folder (it takes about 250 MB), then run this again",
    )
