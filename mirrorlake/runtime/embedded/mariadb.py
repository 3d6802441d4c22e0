"""An embedded MariaDB on loopback: no root, no system service.

A MariaDB of the system is used only where the jar has no build (anything but Linux on x86-64).
"""

from __future__ import annotations

from pathlib import Path

from mirrorlake.errors import MachineError
from mirrorlake.runtime.embedded.mariadb_files import TITLE, find_server, template_data
from mirrorlake.runtime.embedded.server import EmbeddedServer, free_port

__all__ = ["MariaDB", "free_port"]


class MariaDB(EmbeddedServer):
    """A running MariaDB, and its text client."""

    title = TITLE
    # A demo may lose its last second when the machine loses power.
    tuning = (
        "--innodb-buffer-pool-size=256M",
        "--innodb-flush-log-at-trx-commit=2",
        "--sync-binlog=0",
        "--skip-name-resolve",
        # Whatever the machine's zone is.
        "--default-time-zone=+00:00",
        # Without TLS: it makes keys at each start otherwise (13 s against 0.5 s, measured).
        "--ssl=0",
        "--character-set-server=utf8mb4",
        "--log-bin=bin",
        "--binlog-format=row",
        "--binlog-row-metadata=FULL",
        "--server-id=1",
    )
    find_files = staticmethod(find_server)
    make_data = staticmethod(template_data)

    @property
    def client(self) -> Path:
        """The ``mariadb`` text client of the same build."""
        if self.files.client is None:
            raise MachineError("The embedded MariaDB has no text client")
        return self.files.client

    @property
    def client_command(self) -> list[str]:
        """The text client as root over the socket, ready for ``-e`` and more arguments.

        Its own default, to insist on TLS, is switched off: the server has none.
        """
        return [
            str(self.client),
            "--no-defaults",
            "--skip-ssl",
            f"--socket={self.socket}",
            "--user=root",
            "--default-character-set=utf8mb4",
        ]

    @property
    def client_environment(self) -> dict[str, str]:
        """The environment in which :attr:`client` runs."""
        return self.files.environment()
