"""Part ``first``: the first sync of a large table, as a stranger meets it: a whole cold
`mirrorlake sync` of lineitem by the contract that `init` writes (read, proved, committed, folded,
shown). On MariaDB beside dlt's pipeline with connectorx, which copies the table to Parquet; on
MySQL 8.0.12 beside rivet, which exports it to Parquet with a hash of each row.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow.parquet as pq

from benchmarks.dlt_environment import PINS, environment
from benchmarks.many import Times, ours, timed, write_contract
from benchmarks.report import Figures, Section, spread
from benchmarks.source import Source, load_lineitem, started
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.support.mysql8 import MySQL8

_DLT = Path(__file__).with_name("sides") / "dlt_many.py"
_RIVET = Path(__file__).with_name("rivet-requirements.txt")
_RIVET_URL = "RIVET_URL"
_SPREAD = ("median s", "min", "max")
_COSTS = ("median CPU s", "peak MB", "of it not JVM")


@dataclass(frozen=True)
class _Peer:
    """Whom ours is compared with.

    Attributes:
        copy: the command by which it copies lineitem into a folder, as Parquet.
        does: what it does, in words.
    """

    name: str
    side: str
    server: type[EmbeddedServer]
    copy: Callable[[Source, Path], list[str]]
    does: str
    to_reach: str


def run(runs: int, scale: float) -> Figures:
    """Seconds of both sides, in turn, ``runs`` times each after one that does not count."""
    return [_beside(peer, runs, scale) for peer in _PEERS]


def _beside(peer: _Peer, runs: int, scale: float) -> Section:
    with started(peer.server) as source:
        load_lineitem(source, scale)
        os.environ["MIRRORLAKE_INIT_PASSWORD"] = source.password
        rows = source.count("tpch.lineitem")
        found = {"mirrorlake sync": Times(), peer.side: Times()}
        for number in range(runs + 1):
            times = found if number else dict.fromkeys(found, Times())
            _round(source, peer, rows, number, times)
        return _section(peer, found, rows, runs, scale)


def _round(source: Source, peer: _Peer, rows: int, number: int, found: dict[str, Times]) -> None:
    home = source.folder / f"round{number}"
    home.mkdir()
    path = write_contract(source, home, "tpch")
    copied = home / "copied"
    mirrored, theirs = found.values()
    timed(ours("sync", path), mirrored)
    timed(peer.copy(source, copied), theirs)
    files = (copied / "out").rglob("*lineitem*/*.parquet" if peer.name == "dlt" else "*.parquet")
    brought = sum(pq.read_metadata(file).num_rows for file in files)
    if brought != rows:
        raise click.ClickException(f"{peer.name} brought {brought} rows of {rows}")
    shutil.rmtree(home)


def _dlt(source: Source, folder: Path) -> list[str]:
    return [*environment("dlt", PINS), str(_DLT), source.url, "tpch", str(folder)]


def _rivet(source: Source, folder: Path) -> list[str]:
    folder.mkdir()
    os.environ[_RIVET_URL] = f"{source.url}/tpch"
    lineitem = {
        **{"name": "lineitem", "table": "lineitem", "mode": "full", "format": "parquet"},
        "meta_columns": {"row_hash": True},
        "destination": {"type": "local", "path": str(folder / "out")},
    }
    settings = {"source": {"type": "mysql", "url_env": _RIVET_URL}, "exports": [lineitem]}
    config = folder / "rivet.yaml"
    config.write_text(json.dumps(settings))
    [python] = environment("rivet", _RIVET)
    return [str(Path(python).with_name("rivet")), "run", "--config", str(config)]


_PEERS = (
    _Peer(
        *("dlt", "dlt with connectorx, to Parquet", MariaDB, _dlt, "dlt copies"),
        "2.5 of dlt, 600 MB (goal 2.0, 450 MB)",
    ),
    _Peer(
        *("rivet", "rivet with its row hash, to Parquet", MySQL8, _rivet),
        *("rivet exports, and hashes each row that it received", "1.7 of rivet (goal 1.3)"),
    ),
)


def _section(peer: _Peer, found: dict[str, Times], rows: int, runs: int, scale: float) -> Section:
    *_, theirs = (statistics.median(times.wall) for times in found.values())
    cells = [
        (
            *(name, *spread(times.wall), f"{statistics.median(times.wall) / theirs:.2f}"),
            f"{statistics.median(times.cpu):.2f}",
            *(f"{times.peak:.0f}", f"{times.peak_without_jvm:.0f}"),
        )
        for name, times in found.items()
    ]
    server = "MySQL 8.0.12" if peer.server is MySQL8 else "MariaDB"
    about = (
        f"lineitem, {rows:,} rows (TPC-H, scale factor {scale:g}), {server}, `mode: full` as "
        f"`init` writes it; cold processes in turn, {runs} of each after one that does not count. "
        "Ours compares every row with MySQL before it is visible, folds it and shows it; "
        f"{peer.does}. CPU is the client's. To reach: {peer.to_reach}."
    )
    heads = ("side", *_SPREAD, f"of {peer.name}", *_COSTS)
    return Section(
        f"The first sync of a large table, beside {peer.name}", about, heads, tuple(cells)
    )
