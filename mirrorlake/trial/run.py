"""What `mirrorlake try` does: a server with a shop, mirrored, changed, and proved.

Every step is a command of `mirrorlake` in a process of its own, as a person would type it.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pymysql

from mirrorlake.errors import ConfigError, MachineError, MirrorlakeError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.permissions import held
from mirrorlake.trial.shop import READER, READS, create_shop

CUSTOMERS: Final = 100
CHANGES: Final = (
    "UPDATE customers SET city = 'Lisboa', modified_at = UTC_TIMESTAMP(6) WHERE id <= 20",
    "UPDATE orders SET status = 'shipped', modified_at = UTC_TIMESTAMP(6) WHERE id <= 50",
    "UPDATE products SET price = price + 1 WHERE id <= 30",
    "DELETE FROM products WHERE id > 195",
)
"""What is changed in MySQL after the first proof: products have no time of change."""
_STEP_SECONDS: Final = 600.0
"""No step takes longer, on a machine that does much else."""


@dataclass(frozen=True)
class TrialStep:
    """One step: a command, or a statement in MySQL.

    Attributes:
        command: as one would type it.
        seconds: how long it took.
    """

    command: str
    seconds: float


@dataclass(frozen=True)
class TrialDone:
    """What a trial came to.

    Attributes:
        rows: how many rows the shop had at first, in all of its tables.
        tables: how many tables it has.
        proof_seconds: how long it took until all of them were proved for the first time.
        steps: what was run, in order.
        folder: where contract, lake and report are kept; null where they were removed.
    """

    rows: int
    tables: int
    proof_seconds: float
    steps: tuple[TrialStep, ...]
    folder: str | None


def refuse_filled(folder: Path) -> None:
    """See that a folder can be taken: it is empty, or not there.

    Raises:
        ConfigError: something is in it, or it is no folder.
    """
    try:
        if not folder.exists() or not any(folder.iterdir()):
            return
    except OSError as error:
        raise ConfigError(
            f"--keep {folder} can't be used: {error.strerror}",
            next_step="Give a folder that is empty, or that is not there yet",
        ) from error
    raise ConfigError(
        f"--keep {folder} holds something already",
        next_step="Give a folder that is empty, or that is not there yet",
    )


def run_trial(keep: Path | None, *, say: Callable[[str], None], quiet: bool) -> TrialDone:
    """Mirror an invented shop, change it, and prove both times that the mirror is equal.

    Args:
        keep: the folder that stays; None for one that is removed.
        say: told each command before it runs, and what was found.
        quiet: whether the commands' own output is left out.

    Raises:
        MirrorlakeError: a step failed; the server is stopped, and nothing is left but ``keep``.
    """
    started = time.monotonic()
    with (
        held("private"),
        TemporaryDirectory(prefix="mirrorlake-try-") as temporary,
        MariaDB.start(Path(temporary) / "mysql") as server,
    ):
        folder = _project(keep or Path(temporary) / "project")
        password = secrets.token_urlsafe(16)
        server.create_user(READER, password, READS)
        with server.admin() as connection:
            rows = create_shop(connection, customers=CUSTOMERS, zero_dates=False)
        say(f"An invented shop, on 127.0.0.1:{server.port}: {len(rows)} tables, "
            f"{sum(rows.values()):,} rows")  # fmt: skip
        secret = {"MIRRORLAKE_INIT_PASSWORD": password, "SHOP_PASSWORD": password}
        steps = _Steps(folder, secret, say, quiet=quiet)
        url = f"mysql://{READER}@127.0.0.1:{server.port}/shop"
        steps.run("init", "--from", url, "--no-hash", "--yes")
        steps.run("sync")
        steps.run("check")  # ends with 0 where every table is equal alone
        proved = time.monotonic() - started
        say(
            f"First proof after {proved:.0f} s: every row equals MySQL's, in every column that is "
            "mirrored"
        )
        with server.admin("shop") as connection:
            steps.change(connection)
        steps.run("sync")
        steps.run("check")
        steps.run("proof", "customers")
        steps.run("report")
    where = None if keep is None else str(keep)
    return TrialDone(sum(rows.values()), len(rows), proved, tuple(steps.done), where)


def _project(folder: Path) -> Path:
    """The folder in which the commands run, made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--keep {folder} can't be made: {error.strerror}",
            next_step="Give a folder that you may write",
        ) from error
    return folder.absolute()


class _Steps:
    """Commands and statements, one after the other."""

    def __init__(
        self, folder: Path, secret: Mapping[str, str], say: Callable[[str], None], *, quiet: bool
    ) -> None:
        self.done: list[TrialStep] = []
        self._folder = folder
        self._environment = {**os.environ, **secret}
        # The trial's own contract, wherever the caller's is.
        self._environment.pop("MIRRORLAKE_CONFIG", None)
        self._say = say
        self._quiet = quiet

    def run(self, *words: str) -> None:
        """Run a command of ours.

        Raises:
            MachineError: it failed.
        """
        command = shlex.join(["mirrorlake", *words])
        self._say(f"$ {command}")
        started = time.monotonic()
        program = [sys.executable, "-c", "from mirrorlake.cli.main import main; main()", *words]
        # In order on a terminal and in a file: ours before the command's.
        sys.stdout.flush()
        try:
            ended = subprocess.run(
                program,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if self._quiet else None,
                stderr=subprocess.PIPE if self._quiet else None,
                text=True,
                timeout=_STEP_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _failed(command, f"it took longer than {_STEP_SECONDS:.0f} s") from error
        if ended.returncode:
            said = f": {ended.stderr.strip()}" if ended.stderr else ""
            raise _failed(command, f"it ended with {ended.returncode}{said}")
        self.done.append(TrialStep(command, round(time.monotonic() - started, 1)))

    def change(self, connection: pymysql.connections.Connection[pymysql.cursors.Cursor]) -> None:
        """Change rows in MySQL, as an application would."""
        for statement in CHANGES:
            self._say(f"mysql> {statement}")
            started = time.monotonic()
            with connection.cursor() as cursor:
                cursor.execute(statement)
            self.done.append(TrialStep(statement, round(time.monotonic() - started, 1)))


def _failed(command: str, why: str) -> MirrorlakeError:
    return MachineError(
        f"`{command}` failed: {why}",
        next_step="Please report it with what it said; `mirrorlake doctor` shows what this machine "
        "has",
    )
