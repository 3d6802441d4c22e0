"""Part ``ddl``: what a column that is added costs, where rows are carried over and where all are
read.

Over one server and one lake, in turn: TPC-H's lineitem gets a column with a default, and its first
load in the new shape is made. Both sides are proved before they are visible.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import yaml

from benchmarks.report import Figures, Section, spread
from benchmarks.source import Source, load_lineitem, started
from mirrorlake.config import load_config
from mirrorlake.load.protocol import protocol
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.workspace import Workspace

CARRIED, READ = "rows carried over", "every row read"
RATE = 20_000
"""Rows a second that the source may be read at: without a limit every row is read."""
CHANGED = 1_000
"""Rows that change between two loads: the newest ones."""


def run(runs: int, scale: float) -> Figures:
    """Seconds, and bytes from MySQL, of the first load after ``ADD COLUMN``."""
    with started() as source:
        os.environ["BENCH_PASSWORD"] = source.password
        load_lineitem(source, scale)
        return [_added(source, runs, scale)]


def _added(source: Source, runs: int, scale: float) -> Section:
    config = load_config(_contract(source))
    seconds: dict[str, list[float]] = {READ: [], CARRIED: []}
    sent: dict[str, list[int]] = {READ: [], CARRIED: []}
    with Workspace.open(config) as workspace:
        workspace.spark.get()
        contract = config.tables[0]
        load_table(workspace, contract)
        fold_table(workspace, contract)
        for number in range(runs + 1):
            for side in seconds:
                _change(source, f"{side[:4]}_{number}")
                before = _bytes_sent(source)
                with _as(side, source.count("tpch.lineitem")):
                    begun = time.perf_counter()
                    done = load_table(workspace, contract)
                    took = time.perf_counter() - begun
                if bool(done.carried) != (side == CARRIED):
                    raise AssertionError(f"{side}: {done.carried} rows were carried over")
                fold_table(workspace, contract)
                if number:
                    seconds[side].append(took)
                    sent[side].append(_bytes_sent(source) - before)
    rows = source.count("tpch.lineitem")
    whole = float(spread(seconds[READ])[0])
    lines = [
        (
            *(side, *spread(seconds[side])),
            f"{float(spread(seconds[side])[0]) / whole:.2f}",
            f"{max(sent[side]) / 1e6:,.1f}",
        )
        for side in (READ, CARRIED)
    ]
    about = (
        f"lineitem, {rows:,} rows (TPC-H, scale factor {scale:g}), of a source that is read at "
        f"{RATE:,} rows a second, gets a column with a default and"
        f" {CHANGED:,} new rows; {runs} of each, in turn, after one that does not count. From "
        "the load's beginning to its proof; the fold is not in it, and is the same for both."
    )
    columns = ("first load of the new shape", "median s", "min", "max", "ratio", "MB from MySQL")
    return Section("A column is added", about, columns, tuple(lines))


@contextmanager
def _as(side: str, rows: int) -> Iterator[None]:
    if side == CARRIED:
        # The new rows are in the last chunk, which is read: a small table has others, too.
        few = min(protocol.CHUNK_ROWS, max(rows // 8, CHANGED))
        with mock.patch.object(protocol, "CHUNK_ROWS", few):
            yield
        return
    with mock.patch.object(protocol, "plan_carrying", return_value=None):
        yield


def _change(source: Source, name: str) -> None:
    with source.server.admin("tpch") as admin, admin.cursor() as cursor:
        cursor.execute(f"ALTER TABLE lineitem ADD `{name}` INT NOT NULL DEFAULT 7")
        cursor.execute("SELECT MAX(l_orderkey) FROM lineitem")
        found = cursor.fetchone()
        columns = "l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount"
        columns += ", l_tax, l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate"
        columns += ", l_shipinstruct, l_shipmode, l_comment"
        cursor.execute(
            f"INSERT INTO lineitem (l_orderkey, {columns}) SELECT %s + l_orderkey, {columns}"
            f" FROM lineitem ORDER BY l_orderkey LIMIT {CHANGED}",
            (int(found[0]) if found else 0,),
        )
        cursor.execute("ANALYZE TABLE lineitem")


def _bytes_sent(source: Source) -> int:
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")
        found = cursor.fetchone()
    return int(found[1]) if found else 0


def _contract(source: Source) -> Path:
    table = {
        "mode": "append",
        "key": ["l_orderkey", "l_linenumber"],
        "cursor": "l_orderkey",
        "new_columns": "show",
    }
    databases = {"tpch": {"tables": {"lineitem": table}}}
    server = source.section(rows_per_second=RATE, databases=databases)
    path = source.folder / "ddl.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "sources": {"s": server}}))
    return path
