"""Faults of every kind planted in the demo's own lake, found by the checks, and repaired.

It works on two tables of its own, made beside the demo's for the while, on the demo's embedded
server and in the demo's lake. Any other lake or source is refused.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pymysql
import yaml

from demo.faults import (
    ADDED_BY_OTHERS,
    DELETED,
    DELETED_BY_OTHERS,
    FILE_FAULTS,
    HAND_FAULTS,
    KEYED,
    LOOSE,
    RESURRECTED,
    ROW_FAULTS,
    TRUNCATED,
    TYPES,
    UNDONE,
    Fault,
    altered,
    change_sql,
    create_sql,
)
from demo.hands import change_and_sync, heal, plant_hand
from demo.run import MARKER, USER
from mirrorlake.config import TableContract, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import roll_back
from mirrorlake.destinations.iceberg.commits.commit import head_of
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import ConfigError, LakeError, LedgerError, MachineError, MirrorlakeError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.other_writers.moved_lake import find_all_moved
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.proof.comparing.counts import count_rows
from mirrorlake.proof.comparing.evidence import formatter_of, prove_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.permissions import held
from mirrorlake.workspace import Workspace

CELL = "an altered cell"
NAMES = (*(fault.name for fault in ROW_FAULTS), CELL, *HAND_FAULTS, *FILE_FAULTS)
"""Every fault; the altered cell is of any type."""
EVERY = (*NAMES, *(altered(column).name for column in TYPES))
"""Every fault, and an altered cell of each type."""
LEDGER = "sabotage-ledger.db"
"""Where the ledger of the damaged tables is, in the demo's folder."""
Sql = Callable[..., Any]


@dataclass(frozen=True)
class Sabotaged:
    """What came of one fault.

    Attributes:
        row: in which row; null for a whole file or commit.
        repair_seconds: how long that took, including the last check.
        table: the table, which has a key or none.
        fault: what was planted; ``row``: in which row, None where in a whole file or commit.
        counts: what the count of rows said: equal, different, or error.
        by: what finds it: ``the exact check``, ``the heads`` that the ledger remembers of lake
            tables, which are compared before every sync, or ``the sync`` itself, of a view.
        exact: what the exact check said; '' where the heads find it.
        caught: whether what finds it named it, or could not read what was damaged.
        said: its first words about it.
        seconds: how long it took.
        repaired: whether everything was equal after the repair (of what heads find, after one
            sync, or after the step that it named and one more); ``repair_seconds``: its time.
    """

    table: str
    fault: str
    row: int | None
    counts: str
    exact: str
    caught: bool
    said: str
    seconds: float
    repaired: bool
    repair_seconds: float
    by: str = "the exact check"


@dataclass
class Victim:
    """A table that was made to be damaged."""

    workspace: Workspace
    contract: TableContract
    evidence: Path
    sql: Sql
    before: int = 0
    """Deduped's snapshot before MySQL's last changes."""
    lines: list[str] = field(default_factory=list[str])

    @property
    def deduped(self) -> Identifier:
        return Identifier(self.contract.namespaces.deduped, self.contract.table)

    def prepare(self) -> None:
        """Mirror the table, change every row in MySQL, and mirror that: what may be stale."""
        self.sql(*create_sql(self.contract.table))
        sync_table(self.workspace, self.contract)
        self.before = head_of(self.workspace.lake, self.deduped) or 0
        self.sql(*change_sql(self.contract.table))
        if not self.contract.key:
            time.sleep(2.1)  # MySQL records a table's changes in whole seconds
        sync_table(self.workspace, self.contract)
        if self.contract.key:  # an incremental window sees no delete
            repair_table(self.workspace, self.contract, Ask(), evidence=self.evidence)
        if (verdict := self.check()) != "equal":
            raise LakeError(
                f"table {self.contract.name} is {verdict} before anything was planted",
                table=self.contract.name,
                next_step="Try again; if it stays so, please report it",
            )

    def plant(self, fault: Fault, row: int) -> None:
        """Damage one row of deduped, past the engine."""
        name = self.deduped.sql
        before = f"{name} VERSION AS OF {self.before}"
        with spark_errors(self.contract.name):
            for statement in fault.statements(name, row, before):
                self.workspace.spark.get().sql(statement)

    def truncate(self) -> None:
        """Cut a data file of deduped in half."""
        table = self.workspace.lake.load(self.deduped)
        files = [t.file for t in table.scan().plan_files()] if table else []
        largest = max(files, key=lambda file: file.record_count).file_path
        path = Path("/" + largest.removeprefix("file:").lstrip("/"))
        os.truncate(path, path.stat().st_size // 2)
        # Hadoop's own checksum would find it first.
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    def undo_a_commit(self) -> None:
        """Change a few rows in MySQL, mirror them, and lose that commit."""
        before = head_of(self.workspace.lake, self.deduped)
        change_and_sync(self)
        head = head_of(self.workspace.lake, self.deduped)
        if before is not None and head is not None:
            roll_back(self.workspace.lake, self.deduped, before, head)

    def find_moved(self) -> str:
        """What the heads that the ledger remembers say; or that it remembers none."""
        parts = self.workspace.config, self.workspace.ledger, [self.contract]
        try:
            found = find_all_moved(*parts).get(self.contract.name, [])
        except LedgerError as lost:
            return str(lost)
        return "; ".join(one.said for one in found)

    def check(self) -> str:
        """The exact check of the whole table: its verdict, or ``error``; `lines` are its words."""
        try:
            report, _ = prove_table(self.workspace, self.contract, Ask(), self.evidence)
        except LakeError as error:
            self.lines = [str(error)]
            return "error"
        formatter = formatter_of(self.workspace.config, self.contract)
        self.lines = [line for d in report.differences for line in formatter.lines(d)]
        return report.verdict

    def count(self) -> str:
        """What the count of rows says."""
        try:
            return count_rows(self.workspace, self.contract).verdict
        except (MirrorlakeError, OSError, ValueError):  # the file may not be readable
            return "error"

    def repair(self) -> bool:
        """Put it right; whether everything is equal then."""
        try:
            repair_table(self.workspace, self.contract, Ask(), evidence=self.evidence)
        except LakeError:
            # What can't be read can't be compared either: deduped is written from raw.
            refold_table(self.workspace, self.contract)
        return self.check() == "equal"


def sabotage(victim: Victim, name: str, rng: Random) -> Sabotaged:
    """Plant one fault, see which check catches it, and repair it."""
    if name in HAND_FAULTS:
        return _by_other_hands(victim, name, rng.randrange(10, DELETED))
    fault, row = _choose(victim, name, rng)
    counts = victim.count()
    started = time.monotonic()
    exact = victim.check()
    seconds = time.monotonic() - started
    said = next(iter(victim.lines), "")
    if fault is not None and row is not None:
        said = fault.found(row, victim.lines, keyed=bool(victim.contract.key))
    started = time.monotonic()
    repaired = victim.repair()
    return Sabotaged(
        table=victim.contract.table,
        fault=fault.name if fault else name,
        row=row,
        counts=counts,
        exact=exact,
        caught=bool(said) and exact == ("error" if name == TRUNCATED else "different"),
        said=said,
        seconds=round(seconds, 3),
        repaired=repaired,
        repair_seconds=round(time.monotonic() - started, 3),
    )


def _by_other_hands(victim: Victim, name: str, row: int) -> Sabotaged:
    """Let other hands write to the lake; the heads find it, and one sync puts it right, or the
    step that it names and one more."""
    plant_hand(victim, name, row)
    started = time.monotonic()
    said = victim.find_moved()
    seconds = time.monotonic() - started
    counts = victim.count()
    started = time.monotonic()
    healed = heal(victim)
    took = time.monotonic() - started
    return Sabotaged(
        table=victim.contract.table,
        fault=name,
        row=row if name in (DELETED_BY_OTHERS, ADDED_BY_OTHERS) else None,
        counts=counts,
        exact="",
        caught=bool(said or healed),
        said=said or healed,
        seconds=round(seconds if said else took, 3),
        repaired=victim.check() == "equal" and not victim.find_moved() and bool(healed),
        repair_seconds=round(took, 3),
        by="the heads" if said else "the sync",
    )


def _choose(victim: Victim, name: str, rng: Random) -> tuple[Fault | None, int | None]:
    if name == TRUNCATED:
        victim.truncate()
        return None, None
    if name == UNDONE:
        victim.undo_a_commit()
        return None, None
    cells = [altered(column) for column in TYPES]
    faults = {fault.name: fault for fault in (*cells, *ROW_FAULTS)}
    fault = rng.choice(cells) if name == CELL else faults[name]
    row = DELETED if fault is RESURRECTED else rng.randrange(10, DELETED)
    victim.plant(fault, row)
    return fault, row


# --- the demo's own -------------------------------------------------------------------------------


@contextmanager
def victims(folder: Path) -> Iterator[list[Victim]]:
    """Two tables to be damaged, mirrored from the demo's running server into the demo's lake; they
    are gone afterwards.

    Raises:
        ConfigError: the folder is no demo's, or the server is not the demo's own.
        MachineError: the demo does not run.
    """
    folder = folder.absolute()
    demo = read_marker(folder)
    os.environ["MIRRORLAKE_DEMO_PASSWORD"] = str(demo["password"])
    database = f"sabotage_{uuid.uuid4().hex[:6]}"
    with held("private"), connected(folder, demo) as sql:
        sql(f"CREATE DATABASE {database} CHARACTER SET utf8mb4", f"USE {database}")
        path = folder / "sabotage.yaml"
        path.write_text(yaml.safe_dump(contract_of(int(demo["port"]), database)), encoding="utf-8")
        try:
            with Workspace.open(load_config(path)) as workspace:
                found = [
                    Victim(workspace, c, folder / "sabotage", sql) for c in workspace.config.tables
                ]
                try:
                    for victim in found:
                        victim.prepare()
                    yield found
                finally:
                    _purge(found)
        finally:
            for left in folder.glob(f"{LEDGER}*"):
                left.unlink()
            sql(f"DROP DATABASE {database}")


def contract_of(port: int, database: str, **source: Any) -> dict[str, Any]:
    """The contract of both tables."""
    keyed = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "settle": "1m"}
    tables = {KEYED: keyed, LOOSE: {"mode": "full"}}
    server = {
        "host": "127.0.0.1",
        "port": port,
        "user": USER,
        "password": "${env:MIRRORLAKE_DEMO_PASSWORD}",
        "tls": "off",
        **source,
        "databases": {database: {"tables": tables}},
    }
    # A ledger of their own: hands put an older one back, and take it away.
    ledger = {"url": f"sqlite:///{LEDGER}"}
    return {"version": 1, "ledger": ledger, "sources": {"demo": server}}


def read_marker(folder: Path) -> dict[str, Any]:
    """How a running demo is reached.

    Raises:
        ConfigError: the folder is no demo's.
    """
    try:
        found: dict[str, Any] = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        account = {"user": found.get("user", USER), "password": found["password"]}
        return {"port": found["port"], **account, "ui": found.get("ui", "")}
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"{folder} is not the folder of a running demo, and nothing else is damaged on purpose",
            next_step="Start `make demo`, or name its folder with --folder",
        ) from error


@contextmanager
def connected(folder: Path, demo: dict[str, Any]) -> Iterator[Sql]:
    """Statements on the demo's own server.

    Raises:
        ConfigError: what answers is another server.
        MachineError: nothing answers.
    """
    try:
        connection = pymysql.connect(
            host="127.0.0.1",
            port=int(demo["port"]),
            user=str(demo["user"]),
            password=str(demo["password"]).encode(),  # pyright: ignore[reportArgumentType]
            charset="utf8mb4",
            autocommit=True,
        )
    except pymysql.Error as error:
        raise MachineError(
            f"the demo in {folder} does not run", next_step="Start `make demo`, and try again"
        ) from error

    def sql(*statements: str) -> Sequence[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    with connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@datadir")
            (datadir,) = cursor.fetchone() or ("",)
        if not Path(str(datadir)).resolve().is_relative_to(folder.resolve()):
            raise ConfigError(
                f"the server on port {demo['port']} is not the demo's own: its files are elsewhere",
                next_step="Start `make demo` again: only what it made is damaged on purpose",
            )
        yield sql


def _purge(found: Sequence[Victim]) -> None:
    """Take the lake's tables away, with their files."""
    for victim in found:
        lake, spaces = victim.workspace.lake, victim.contract.namespaces
        for view in (spaces.clean, spaces.raw):
            name = Identifier(view, victim.contract.table)
            with suppress(MirrorlakeError):
                victim.workspace.spark.run(f"DROP VIEW IF EXISTS {name.sql}")
        for namespace in (spaces.raw, spaces.deduped):
            for path in lake.catalog.list_tables((namespace,)):
                with suppress(FileNotFoundError):
                    lake.catalog.purge_table(path)
