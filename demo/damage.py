"""Sabotage of the demo's own lake: rows of a mirrored table, past the engine, so that a person sees
in Dagster's UI what finds it and puts it right.

The table stays damaged until somebody repairs it. `demo.sabotage` plants every fault there is in
tables of its own, and repairs them.
"""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from demo.sabotage import connected, read_marker
from mirrorlake.config import Config, TableContract, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import BY
from mirrorlake.errors import ConfigError, LeaseHeld, MachineError
from mirrorlake.runtime.permissions import held
from mirrorlake.workspace import Workspace

Row = tuple[Any, ...]
_TRIES, _PAUSE_SECONDS = 60, 2.0


@dataclass(frozen=True)
class Target:
    """A table that can be damaged: its key, and a number in it."""

    table: str
    key: tuple[str, ...]
    column: str

    def holds(self, row: Row) -> str:
        """The condition that is true of one row."""
        cells = zip(self.key, row, strict=True)
        return " and ".join(f"{name} = {_literal(cell)}" for name, cell in cells)


TARGETS = (
    Target("nyc.nyc.weather", ("origin", "time_hour"), "precip"),
    Target("shop.shop.orders", ("id",), "total"),
)
"""The first that is mirrored is damaged. Nobody writes the weather, so no run replaces what the
check showed; the shop's orders are damaged where the shop is mirrored alone."""


@dataclass(frozen=True)
class Damaged:
    """What was done to the table.

    Attributes:
        table: its whole name.
        lost: the key of a row that is gone from the lake.
        altered: the key of a row whose `column` is wrong there.
        before, after: its value in MySQL, and in the lake now.
        ui: the address of Dagster's UI; '' where none was started.
    """

    table: str
    column: str
    lost: Row
    altered: Row
    before: Decimal
    after: Decimal
    ui: str

    @property
    def page(self) -> str:
        """Where the UI shows the table's checks."""
        return f"{self.ui}/assets/deduped/{self.table.replace('.', '/')}?view=checks"


_OURS = {BY: "mirrorlake"}


def damage_table(folder: Path, rng: Random) -> Damaged:
    """Lose a row of a mirrored table of the demo's, and alter a number of another.

    Raises:
        ConfigError: the folder is no demo's, the server is not the demo's own, or no such table is
            mirrored.
        MachineError: the demo does not run, or the table was never free.
    """
    folder = folder.absolute()
    demo = read_marker(folder)
    os.environ["MIRRORLAKE_DEMO_PASSWORD"] = str(demo["password"])
    # Nothing is hashed here; the contract only wants to be read.
    os.environ.setdefault("MIRRORLAKE_HASH_KEY", "the demo's own key, no secret")
    config = load_config(folder / "mirrorlake.yaml")
    target = _target_in(config)
    with held("private"), connected(folder, demo) as query:
        columns, name = ", ".join(target.key), target.table.partition(".")[2]
        rows: list[Row] = list(query(f"SELECT {columns} FROM {name} ORDER BY {columns}"))  # noqa: S608
        lost, altered = rng.sample(rows, 2)
        with Workspace.open(config, "sabotage") as workspace:
            before, after = _write(workspace, target, lost, altered)
    return Damaged(target.table, target.column, lost, altered, before, after, str(demo["ui"]))


def _target_in(config: Config) -> Target:
    mirrored = {contract.name for contract in config.tables}
    for target in TARGETS:
        if target.table in mirrored:
            return target
    names = " or ".join(target.table for target in TARGETS)
    raise ConfigError(
        f"{config.path} mirrors no table that can be damaged: {names}",
        next_step="Give the folder of a demo that mirrors one",
    )


def _write(
    workspace: Workspace, target: Target, lost: Row, altered: Row
) -> tuple[Decimal, Decimal]:
    """Damage deduped while no run writes it."""
    contract = workspace.config.table(target.table)
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        try:
            with workspace.leased(contract), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyIceberg's, on how it writes
                return _damage(workspace, contract, target, lost, altered)
        except LeaseHeld:
            continue
    raise MachineError(f"table {contract.name} was never free", next_step="Try again")


def _damage(
    workspace: Workspace, contract: TableContract, target: Target, lost: Row, altered: Row
) -> tuple[Decimal, Decimal]:
    name = Identifier(contract.namespaces.deduped, contract.table)
    table = workspace.lake.load(name)
    if table is None:
        raise MachineError(f"{name} is not in the lake yet", next_step="Wait for the demo's sync")
    row = table.scan(target.holds(altered)).to_arrow()
    place = row.schema.get_field_index(target.column)
    (before,) = row.column(place).to_pylist()
    wrong: Any = pa.array([before + Decimal("0.01")], row.schema.field(place).type)
    # As a defect of ours would: what other hands write, the next sync puts right by itself.
    table.delete(f"({target.holds(lost)}) or ({target.holds(altered)})", snapshot_properties=_OURS)
    changed = row.set_column(place, row.schema.field(place), wrong)
    table.append(changed.cast(table.schema().as_arrow()), snapshot_properties=_OURS)
    return before, wrong[0].as_py()


def _literal(cell: Any) -> str:
    if isinstance(cell, int):
        return str(cell)
    return f"'{cell.isoformat() if isinstance(cell, datetime) else cell}'"
