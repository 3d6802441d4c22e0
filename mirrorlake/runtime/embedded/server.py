"""An embedded server on loopback: no root, no system service.

The server comes inside a pinned jar, so every machine runs the same one: a server that happens to
be on PATH differs in version, plugins and defaults, and would make a result depend on it.
`mariadb.py` says what is MariaDB's own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import pymysql

from mirrorlake.errors import MachineError
from mirrorlake.runtime.embedded import watch
from mirrorlake.runtime.embedded.files import ServerFiles

HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = watch.GRACE + 5.0
# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing zero included.
LONGEST_SOCKET = 103


class EmbeddedServer(ABC):
    """One running server; made by :meth:`start`, ended by :meth:`stop` or by leaving the block.

    It also ends when the process that started it dies, even by SIGKILL. ``root`` has no password
    and may only come through the socket, which is in a folder that only this user can open.
    """

    title: ClassVar[str]
    """What it is called in messages."""
    tuning: ClassVar[tuple[str, ...]]
    """Arguments that may differ from start to start; small and quick."""

    @staticmethod
    @abstractmethod
    def find_files() -> ServerFiles:
        """The server's files, unpacked."""

    @staticmethod
    @abstractmethod
    def make_data(files: ServerFiles, target: Path) -> None:
        """Make a fresh data folder."""

    def __init__(self, files: ServerFiles, folder: Path, port: int, runtime: Path) -> None:
        self.files = files
        self.folder = folder
        self.port = port
        self.host = HOST
        self.socket = runtime / "s.sock"
        self.log = folder / "server.log"
        self._log_start = 0
        self._runtime = runtime
        self._watcher: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None

    @classmethod
    def start(cls, folder: Path, port: int | None = None, extra_args: Sequence[str] = ()) -> Self:
        """Start a server whose data is in ``folder`` (made if missing, kept if it is there).

        It listens on 127.0.0.1 at ``port`` (a free one by default) and is ready when this returns.

        Raises:
            MachineError: the port is taken, or the server can't be brought or doesn't start.
        """
        files = cls.find_files()
        if port is not None:
            refuse_taken(port)
        folder = folder.absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "data").exists():
                cls.make_data(files, folder / "data")
        except OSError as error:
            raise MachineError(
                f"The folder {folder} of the embedded {cls.title} can't be written: "
                f"{error.strerror}",
                next_step="Make room or make it writable",
            ) from error
        # Always a short folder of its own: a socket's path can't be long, and 0700 guards root.
        runtime = Path(tempfile.mkdtemp(prefix="ml-", dir=short_folder()))
        server = cls(files, folder, port or free_port(), runtime)
        try:
            server._launch(extra_args)
            server._secure()
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def pid(self) -> int:
        """The server's process id (for tests that kill it)."""
        if self._pid is None:
            raise MachineError(
                f"The embedded {self.title} is not running", next_step="Start it first"
            )
        return self._pid

    def admin(self, database: str | None = None) -> pymysql.connections.Connection[Any]:
        """Return a new autocommit connection as root over the socket; the caller closes it."""
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            database=database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=10,
            # Else PyMySQL reads every certificate of the machine first, for 20 ms of CPU time.
            ssl_disabled=True,
        )

    def create_user(
        self, name: str, password: str, grants: Mapping[str, str] | str = "ALL"
    ) -> None:
        """Create or replace a user who may come from anywhere (that is, from this machine).

        ``grants`` is privileges on everything (``"SELECT, REPLICATION CLIENT"``), or a mapping of
        what they are on to privileges: ``{"shop.*": "SELECT", "*.*": "REPLICATION CLIENT"}``.
        """
        wanted = {"*.*": grants} if isinstance(grants, str) else grants
        with self.admin() as connection, connection.cursor() as cursor:
            cursor.execute("DROP USER IF EXISTS %s@'%%'", (name,))
            cursor.execute("CREATE USER %s@'%%' IDENTIFIED BY %s", (name, password))
            for on, privileges in wanted.items():
                cursor.execute(f"GRANT {privileges} ON {on} TO %s@'%%'", (name,))

    def stop(self) -> None:
        """End the server (SIGTERM, then SIGKILL) and wait for it; a second call does nothing."""
        watcher, self._watcher, self._pid = self._watcher, None, None
        if watcher is not None:
            if watcher.stdin is not None:
                watcher.stdin.close()
            try:
                watcher.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                # The kernel ends the server with its watcher.
                watcher.kill()
                watcher.wait()
            if watcher.stdout is not None:
                watcher.stdout.close()
        shutil.rmtree(self._runtime, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _launch(self, extra_args: Sequence[str]) -> None:
        """Start the server under its watcher and wait until it answers."""
        command = [
            str(self.files.server),
            "--no-defaults",
            *self.files.arguments(),
            f"--datadir={self.folder / 'data'}",
            f"--bind-address={HOST}",
            f"--port={self.port}",
            f"--socket={self.socket}",
            f"--pid-file={self._runtime / 'pid'}",
            f"--tmpdir={self._runtime}",
            # None of the jar's plugins is wanted, and a folder of our own has none.
            f"--plugin-dir={self._runtime}",
            *self.tuning,
            *extra_args,
        ]
        watcher = [sys.executable, "-I", "-S", watch.__file__, str(self._runtime)]
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._watcher = subprocess.Popen(
                [*watcher, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.files.environment(),
                # Ctrl-C in a terminal goes to us; we then stop the server in order.
                start_new_session=True,
            )
        assert self._watcher.stdout is not None  # noqa: S101 (a pipe was requested)
        first = self._watcher.stdout.readline().strip()
        self._pid = int(first) if first.isdigit() else None
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        """Wait for the first answer over the socket.

        Raises:
            MachineError: the server ended, or said nothing for a minute.
        """
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._watcher is None or self._watcher.poll() is not None:
                raise self._not_started("it ended at once")
            with contextlib.suppress(pymysql.err.OperationalError):
                self.admin().close()
                return
            time.sleep(0.02)
        raise self._not_started(f"no answer within {START_SECONDS:.0f} s")

    def _not_started(self, what: str) -> MachineError:
        """Return the error for a server that didn't start, with its own last word."""
        logged = self.log.read_bytes() if self.log.exists() else b""
        lines = logged[self._log_start :].decode(errors="replace").splitlines()
        # The first error is the cause; the last one is only "Aborting".
        said = [line for line in lines if "[ERROR]" in line] or lines[-1:] or ["nothing was logged"]
        if any("Address already in use" in line for line in lines):
            return port_taken(self.port)
        return MachineError(
            f"The embedded {self.title} did not start: {what}: {said[0].strip()}",
            next_step=f"Its log is {self.log}; mirrorlake doctor shows the machine's pieces",
        )

    def _secure(self) -> None:
        """Drop anonymous users (they shadow named ones) and network logins of root."""
        with self.admin() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT User, Host FROM mysql.user "
                "WHERE User = '' OR (User = 'root' AND Host <> 'localhost')"
            )
            for user, host in cursor.fetchall():
                cursor.execute("DROP USER %s@%s", (user, host))


def short_folder() -> str | None:
    """Return a folder for the socket whose path is short enough; None for the usual one."""
    usual = tempfile.gettempdir()
    room = LONGEST_SOCKET - len("/ml-xxxxxxxx/s.sock")
    return None if len(os.fsencode(usual)) <= room else "/tmp"  # noqa: S108 (mkdtemp inside it)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def refuse_taken(port: int) -> None:
    """Raise MachineError if the port can't be listened on."""
    with socket.socket() as probe:
        # As the server does: a port of a connection that was just closed is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise port_taken(port) from error


def port_taken(port: int) -> MachineError:
    """Return the error for a port that another program listens on."""
    return MachineError(
        f"Port {port} of {HOST} is taken by another program",
        next_step="Choose another port, or none to get a free one",
    )
