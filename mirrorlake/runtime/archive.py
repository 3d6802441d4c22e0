"""Java's class archive: the 20,000 classes that Spark loads at its start, read and checked once.

A JVM that starts Spark spends most of its first ten seconds on finding, checking and linking
classes. An archive of them is mapped into memory instead. It belongs to one Java and to one
environment's jars, by path and time: it lives in the environment's folder, and is ignored, by its
name or by the JVM itself, once anything differs. `mirrorlake.operations.loading.warm` makes it.

Source: JEP 350 "Dynamic CDS Archives"; JDK 17 manual, "Class Data Sharing".
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

# What a JVM says of an archive that does not fit it is nothing that a user can repair.
_QUIET = ("-Xshare:auto", "-Xlog:cds*=off", "-Xlog:class+path=off")


# An archive fits JVMs that are started with the modules that it was made with: none but Java's own.
_STARTED = b"without jdk.incubator.vector"


@dataclass(frozen=True)
class Archive:
    """Where the archive of one Java and this environment is, or would be.

    ``base``: the archive of Java's own classes that it stands on, where Java has come without one.
    """

    path: Path
    base: Path | None

    @property
    def there(self) -> bool:
        return self.path.exists() and (self.base is None or self.base.exists())

    @property
    def parts(self) -> str:
        """As ``-XX:SharedArchiveFile`` takes it."""
        return ":".join(str(part) for part in (self.base, self.path) if part is not None)


def archive_of(home: Path) -> Archive:
    """The archive of the Java in that folder; its name changes with Java, PySpark's jars and the
    pinned ones."""
    digest = hashlib.sha256(_STARTED)
    for path in [home / "release", *sorted(_jars_folder().glob("*.jar"))]:
        seen = path.stat() if path.exists() else None
        known = (str(path), seen.st_size, seen.st_mtime_ns) if seen else (str(path),)
        digest.update(repr(known).encode())
    digest.update(Path(__file__).with_name("jars.lock.json").read_bytes())
    folder, key = Path(sys.prefix) / "mirrorlake", digest.hexdigest()[:16]
    own = home / "lib" / "server" / "classes.jsa"
    return Archive(folder / f"{key}.jsa", None if own.exists() else folder / f"{key}-base.jsa")


def archive_options(home: Path) -> list[str]:
    """The JVM options that use the archive; none where there is none, nor for a JVM that is set to
    leave one itself: Java takes the two together for an error."""
    if "-XX:ArchiveClassesAtExit" in os.environ.get("SPARK_SUBMIT_OPTS", ""):
        return []
    archive = archive_of(home)
    return [f"-XX:SharedArchiveFile={archive.parts}", *_QUIET] if archive.there else []


def _jars_folder() -> Path:
    spark = importlib.util.find_spec("pyspark")
    return Path(spark.origin).parent / "jars" if spark and spark.origin else Path("jars")
