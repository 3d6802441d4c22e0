"""Part ``streams``: what a look at a stream view costs, beside deduped alone, and beside folding
first and then looking at deduped.

TPC-H's lineitem is mirrored by a cursor. Some of its rows change and are loaded, without a fold;
then each side answers the same two questions: sums over all rows, and one row by its key. What the
stream view gives before the fold is what deduped gives after it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.processes import Watched
from benchmarks.report import Figures, Section, spread
from benchmarks.source import Source, load_lineitem, started
from mirrorlake.config import load_config
from mirrorlake.destinations.base import CATALOG
from mirrorlake.models.compute.run import run_model
from mirrorlake.models.contract_models import compile_project
from mirrorlake.models.partition_states.states import States
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.workspace import Workspace

CHANGED = 1_000
"""Rows that change before each load."""
LOADS = (1, 4)
"""Loads that wait for their fold."""
BEFORE, STREAM, AFTER = "deduped, without them", "stream view", "fold, then deduped"
VIEW, DEDUPED = f"{CATALOG}.m.now", f"{CATALOG}.s_tpch.lineitem"
QUESTIONS = {
    "sums over all rows": "SELECT COUNT(*), SUM(l_quantity), SUM(l_extendedprice) FROM {table}",
    "one row by its key": "SELECT * FROM {table} WHERE l_orderkey = 1 AND l_linenumber = 1",
}


@dataclass
class _Taken:
    seconds: list[float] = field(default_factory=list[float])
    peak: float = 0.0


def run(runs: int, scale: float) -> Figures:
    """Seconds until a question is answered."""
    with started() as source:
        os.environ["BENCH_PASSWORD"] = source.password
        load_lineitem(source, scale)
        with source.server.admin("tpch") as admin, admin.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE lineitem ADD moved DATETIME(6) NOT NULL DEFAULT NOW(6) "
                "ON UPDATE NOW(6), ADD INDEX (moved)"
            )
        config = load_config(_contract(source))
        with Workspace.open(config) as workspace:
            workspace.spark.get()
            _bring_up(workspace)
            _make_view(workspace)
            sides = Sides(source, workspace)
            return [sides.measured(loads, runs, scale) for loads in LOADS]


@dataclass
class Sides:
    """The three ways to an answer, over one lake."""

    source: Source
    workspace: Workspace
    number: int = 0

    def measured(self, loads: int, runs: int, scale: float) -> Section:
        """Each question, answered by each side in turn."""
        taken = {(q, side): _Taken() for q in QUESTIONS for side in (BEFORE, STREAM, AFTER)}
        folds = _Taken()
        for number in range(runs + 1):
            counts = bool(number)
            for _ in range(loads):
                self._change()
                load_table(self.workspace, self.workspace.config.tables[0])
            shown: dict[str, Any] = {}
            for question in QUESTIONS:
                # In turn, so that neither always finds the files in memory.
                for side in (BEFORE, STREAM) if number % 2 else (STREAM, BEFORE):
                    table = VIEW if side == STREAM else DEDUPED
                    rows = self._timed(taken[question, side], question, table, counts=counts)
                    if side == STREAM:
                        shown[question] = rows
            _timed(folds, lambda: _fold(self.workspace), counts=counts)
            for question in QUESTIONS:
                after = self._timed(taken[question, AFTER], question, DEDUPED, counts=counts)
                if after != shown[question]:
                    raise AssertionError(f"{question}: {shown[question]} before the fold: {after}")
        for question in QUESTIONS:
            one = taken[question, AFTER]
            one.seconds = [a + b for a, b in zip(one.seconds, folds.seconds, strict=True)]
            one.peak = max(one.peak, folds.peak)
        rows = self.source.count("tpch.lineitem")
        about = (
            f"{rows:,} rows (TPC-H, scale factor {scale:g}); {CHANGED:,} rows change before each "
            f"of {loads} loads, which are not in it; {runs} of each, in turn, after one that does "
            "not count. The stream view gave before the fold what deduped gave after it."
        )
        columns = ("question", "side", "median s", "min", "max", "ratio", "peak MB")
        title = f"lineitem, {loads} load{'s' if loads > 1 else ''} not folded"
        return Section(title, about, columns, tuple(_lines(taken)))

    def _timed(self, taken: _Taken, question: str, table: str, *, counts: bool) -> Any:
        sql = QUESTIONS[question].format(table=table)
        return _timed(taken, lambda: self.workspace.spark.get().sql(sql).collect(), counts=counts)

    def _change(self) -> None:
        with self.source.server.admin("tpch") as admin, admin.cursor() as cursor:
            cursor.execute(
                "UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE l_orderkey > %s "
                "ORDER BY l_orderkey, l_linenumber LIMIT %s",
                (self.number * 4 * CHANGED, CHANGED),
            )
            cursor.execute(
                "UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE l_orderkey = 1 "
                "AND l_linenumber = 1"
            )
            admin.commit()
        self.number += 1


def _timed(taken: _Taken, work: Callable[[], Any], *, counts: bool) -> Any:
    with Watched(os.getpid()) as watched:
        begun = time.perf_counter()
        found = work()
        seconds = time.perf_counter() - begun
    if counts:
        taken.seconds.append(seconds)
        taken.peak = max(taken.peak, watched.peak)
    return found


def _lines(taken: dict[tuple[str, str], _Taken]) -> Any:
    for question in QUESTIONS:
        first = float(spread(taken[question, BEFORE].seconds)[0])
        for side in (BEFORE, STREAM, AFTER):
            one = taken[question, side]
            ratio = float(spread(one.seconds)[0]) / first
            yield question, side, *spread(one.seconds), f"{ratio:.2f}", f"{one.peak:,.0f}"


def _fold(workspace: Workspace) -> None:
    fold_table(workspace, workspace.config.tables[0])


def _bring_up(workspace: Workspace) -> None:
    load_table(workspace, workspace.config.tables[0])
    _fold(workspace)


def _make_view(workspace: Workspace) -> None:
    project, catalogue = compile_project(workspace.config, workspace.lake)
    project.raise_problems()
    states = States(project, catalogue, workspace.lake, workspace.ledger)
    model = project.model("m.now")
    run_model(workspace, states, model, model.scopes)


def _contract(source: Source) -> Path:
    table = {
        "mode": "incremental",
        "key": ["l_orderkey", "l_linenumber"],
        "cursor": "moved",
        "overlap": "0s",
    }
    server = source.section(databases={"tpch": {"tables": {"lineitem": table}}})
    path = source.folder / "streams.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "sources": {"s": server}}))
    folder = source.folder / "models" / "m"
    folder.mkdir(parents=True)
    header = "---\nmaterialized: stream view\n---\n"
    (folder / "now.sql").write_text(f"{header}SELECT * FROM s_tpch.lineitem\n")
    return path
