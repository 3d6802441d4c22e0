"""Starting Spark's JVM without showing its settings: a command line is everybody's to read.

PySpark passes every setting as ``--conf name=value``, passwords of catalogs and storage among them,
where ``ps`` shows them to each user of the machine for as long as the JVM runs. Here they go
through a file that only this user can read, and that is removed once the JVM has read it.

Source: Spark's manual, "Submitting Applications", "Loading Configuration from a File"
(``--properties-file``, ``--load-spark-defaults``); java.util.Properties, ``load``.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from mirrorlake.runtime.cache import cache_folder, unwritable

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_STARTS = threading.Lock()
_PREFIX = "spark-settings-"
_STALE_SECONDS = 3600
"""No start takes longer: what is older was left by a process that was killed."""


@contextmanager
def hidden_settings(settings: Mapping[str, str]) -> Iterator[None]:
    """While the block runs, a JVM that PySpark starts reads these settings from a private file.

    Raises:
        MachineError: the cache folder can't be written.
    """
    folder = cache_folder("tmp")
    _remove_stale(folder)
    # PySpark reads its arguments from the environment, which is every thread's: one start at a time
    # may put them there, or the second would put back the first one's.
    with _STARTS:
        before = os.environ.get(_ARGUMENTS)
        path = _written(folder, _properties_text(settings))
        ours = f"--properties-file {shlex.quote(str(path))} --load-spark-defaults"
        os.environ[_ARGUMENTS] = f"{ours} {before or 'pyspark-shell'}"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = before
            path.unlink(missing_ok=True)


def _properties_text(settings: Mapping[str, str]) -> str:
    """Settings as Java reads them from a file, one a line, in ASCII.

    >>> print(_properties_text({"a b": " x=y", "c": "ü\\\\n"}), end="")
    a\\u0020b=\\u0020x\\u003dy
    c=\\u00fc\\u005cn
    """
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    """Every character but letters, digits and some that mean nothing, in UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    numbers = (int.from_bytes(units[n : n + 2], "big") for n in range(0, len(units), 2))
    return "".join(
        chr(n) if n < 128 and (chr(n).isalnum() or chr(n) in "._-/,*[]") else f"\\u{n:04x}"
        for n in numbers
    )


def _written(folder: Path, text: str) -> Path:
    try:
        number, name = tempfile.mkstemp(dir=folder, prefix=f"{_PREFIX}{os.getpid()}-")  # mode 0600
        with os.fdopen(number, "w", encoding="ascii") as stream:
            stream.write(text)
    except OSError as error:
        raise unwritable(folder, error) from error
    return Path(name)


def _remove_stale(folder: Path) -> None:
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another start removes it too
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink(missing_ok=True)
