"""Spark's daemon of Python workers, whose tasks read no archive again: ``python -m`` this module.

Before each task PySpark has every importer forget what it knows. Spark's own jar and PySpark's
archive are on the workers' path, and Python reads the 6,700 names in them again: 24 ms of CPU time
for each task. An archive that did not change is known as it was.

Source: PySpark 4.1, `pyspark.worker_util.setup_spark_files`; CPython 3.11, `zipimport`.
"""

from __future__ import annotations

import sys
import zipimport
from pathlib import Path
from typing import Any

DAEMON = "mirrorlake.destinations.iceberg.spark.python_daemon"

_known: dict[str, tuple[int, int]] = {}
_forget: Any = zipimport.zipimporter.invalidate_caches


def _mark(archive: str) -> tuple[int, int]:
    """A file's time and size; of none, zeros."""
    try:
        found = Path(archive).stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _forget_if_changed(importer: zipimport.zipimporter) -> None:
    now = _mark(importer.archive)
    if _known.get(importer.archive) != now:
        _known[importer.archive] = now
        _forget(importer)


def main() -> None:
    """Serve workers to a JVM, as PySpark's daemon does."""
    from pyspark.daemon import manager

    _known.update((path, _mark(path)) for path in sys.path if Path(path).is_file())
    zipimport.zipimporter.invalidate_caches = _forget_if_changed  # type: ignore[method-assign]
    manager()


if __name__ == "__main__":
    main()
