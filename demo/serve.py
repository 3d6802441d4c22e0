"""The demo's server with the shop alone, for who wants to mirror it by hand: the tutorial's."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pymysql
from rich.console import Console

from demo.run import MARKER, in_use, interruptible, make_again
from demo.sabotage import connected, read_marker
from mirrorlake.errors import SourceError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.permissions import held
from mirrorlake.trial.shop import READER, READS, create_shop

PASSWORD = "a-password"  # noqa: S105
"""Of the account that mirrors, on a server that nobody but this machine can reach."""
WRITER = "shop"


def serve_shop(folder: Path, port: int | None, customers: int, console: Console) -> None:
    """The server, in a ``folder`` that is made again, until Ctrl-C.

    Raises:
        MirrorlakeError: the folder is somebody else's, or the server does not start.
    """
    folder = folder.absolute()
    with held("private"), in_use(folder), interruptible():
        make_again(folder, console)
        with MariaDB.start(folder / "mysql", port) as server:
            with server.admin() as connection:
                rows = create_shop(connection, customers=customers)
            server.create_user(READER, PASSWORD, READS)
            password = secrets.token_urlsafe(16)
            server.create_user(WRITER, password, {"shop.*": "ALL"})
            marker = folder / MARKER
            marker.chmod(0o600)
            account = {"port": server.port, "user": WRITER, "password": password}
            marker.write_text(json.dumps(account), encoding="utf-8")
            for line in (
                f"A shop of {sum(rows.values()):,} rows in {len(rows)} tables:",
                f"  mysql://{READER}:{PASSWORD}@{server.host}:{server.port}/shop",
                "Ctrl-C stops it.",
            ):
                console.print(line, highlight=False, soft_wrap=True)
            Event().wait()


def run_statement(folder: Path, statement: str) -> Sequence[tuple[Any, ...]]:
    """One statement on a running demo's server, as the application that writes there.

    Raises:
        MirrorlakeError: no demo runs in ``folder``, or the server refuses the statement.
    """
    folder = folder.absolute()
    with connected(folder, read_marker(folder)) as sql:
        try:
            return sql(statement)
        except pymysql.Error as error:
            raise SourceError(
                f"the demo's server refuses the statement: {error.args[-1]}",
                next_step="Correct it, and give it again",
            ) from error
