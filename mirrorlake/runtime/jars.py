"""The jars that Spark and the demo need: pinned, brought once, verified at each use.

The pins are in ``jars.lock.json`` (coordinates, size, SHA-256). A missing jar comes from Maven
Central (or the mirror in ``DEFAULT_ARTIFACT_REPOSITORY``); after that the cache folder is enough
and no network is used. Verifying costs 0.06 s for Spark's 62 MB.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.errors import MachineError
from mirrorlake.runtime.cache import cache_folder, cache_lock, cache_path, unwritable
from mirrorlake.runtime.extras import lacking

logger = logging.getLogger(__name__)

PINS = Path(__file__).with_name("jars.lock.json")


@dataclass(frozen=True)
class Jar:
    """One pinned jar. ``coordinates`` is ``group:artifact:version``; ``size`` is in bytes."""

    group: str
    coordinates: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name at its publisher, ``artifact-version.jar``."""
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def version(self) -> str:
        """Its version, as its publisher counts."""
        return self.coordinates.rsplit(":", 1)[1]

    @property
    def path(self) -> Path:
        """Where it is in the cache folder, whose part for jars is created."""
        cache_folder("jars")
        return self.path_in(cache_path())

    def path_in(self, cache: Path) -> Path:
        """Where it would be in a cache folder; the name carries the checksum, so pins never mix."""
        return cache / "jars" / f"{self.sha256[:16]}-{self.name}"


@functools.cache
def read_pins() -> tuple[Jar, ...]:
    """Return every pinned jar, in the file's order."""
    pins: dict[str, list[dict[str, str | int]]] = json.loads(PINS.read_text(encoding="utf-8"))
    return tuple(
        Jar(group, str(pin["coordinates"]), int(pin["size"]), str(pin["sha256"]))
        for group, jars in pins.items()
        for pin in jars
    )


def pinned(groups: Iterable[str]) -> list[Jar]:
    """Return the jars of these groups, in the pins' order.

    Raises:
        MachineError: there is no such group.
    """
    wanted = set(groups)
    known = dict.fromkeys(jar.group for jar in read_pins())
    if unknown := sorted(wanted - known.keys()):
        raise MachineError(
            f"There is no group of jars called {unknown[0]}",
            next_step=f"The groups are {', '.join(known)} ({PINS.name})",
        )
    return [jar for jar in read_pins() if jar.group in wanted]


def flaw(path: Path, jar: Jar) -> str:
    """Return what is wrong with a file that should be ``jar``; '' if it is exactly that."""
    size = path.stat().st_size
    if size != jar.size:
        return f"{size:,} bytes where {jar.size:,} are pinned"
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return "" if digest == jar.sha256 else f"SHA-256 {digest} where {jar.sha256} is pinned"


def ensure_jars(
    groups: Iterable[str], on_bytes: Callable[[Jar, int], None] | None = None
) -> list[Path]:
    """Return local, verified paths of the jars of these groups, in the pins' order.

    A file in the cache folder that is not what was pinned is named in the log, removed and brought
    again, once. Safe to call from several processes.

    Args:
        on_bytes: called with a jar that is downloaded, and how many of its bytes have arrived.

    Raises:
        MachineError: a jar can't be brought, or what was brought is not what was pinned.
    """
    return [_ensure_jar(jar, on_bytes) for jar in pinned(groups)]


def _ensure_jar(jar: Jar, on_bytes: Callable[[Jar, int], None] | None) -> Path:
    """Return the verified path of one jar, bringing it if it is missing or broken."""
    try:
        if jar.path.exists() and not flaw(jar.path, jar):
            return jar.path
        with cache_lock(f"jar-{jar.sha256[:16]}"):
            if jar.path.exists():
                # Looked at again: another process may have brought it while we waited.
                if not (wrong := flaw(jar.path, jar)):
                    return jar.path
                logger.warning("removing a broken jar, %s: %s", jar.path, wrong)
                jar.path.unlink()
            _bring_jar(jar, on_bytes)
    except OSError as error:
        raise unwritable(Path(error.filename or jar.path), error) from error
    return jar.path


def _bring_jar(jar: Jar, on_bytes: Callable[[Jar, int], None] | None) -> None:
    """Download one jar into a folder of its own, verify it, and only then give it its name."""
    from mirrorlake.runtime.downloads import download_jar  # with the libraries of HTTP

    logger.info("bringing %s (%.0f MB)", jar.coordinates, jar.size / 1e6)
    folder = Path(tempfile.mkdtemp(dir=cache_folder("tmp"), prefix="jar-"))
    try:
        report = None if on_bytes is None else functools.partial(on_bytes, jar)
        brought = download_jar(jar.coordinates, folder, report)
        if wrong := flaw(brought, jar):
            raise MachineError(
                f"The jar {jar.coordinates} that was downloaded is not the pinned one: {wrong}; "
                "it was not used",
                next_step=(
                    "Run this again; if it stays so, ask whoever runs the repository mirror "
                    "(DEFAULT_ARTIFACT_REPOSITORY) what it serves"
                ),
            )
        brought.chmod(0o644)
        brought.replace(jar.path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def spark_jars() -> Path:
    """Return the folder of Spark's own jars, in the PySpark of this environment.

    Raises:
        MachineError: PySpark is not installed, or not whole.
    """
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    if folder is None or not folder.is_dir():
        raise lacking("Spark", "a whole pyspark", "spark")
    return folder
