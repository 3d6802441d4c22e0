"""Part ``plan``: how long it takes to compile a thousand models over three years of days, with what
each of their partitions reads.

Each run is a fresh process over a project that was generated from a seed: *cold* without what was
found before, *warm* with all of it, and with one model changed since. SQLMesh loads the same
queries beside it: what it has no word for (which partitions another reads) it does not find.
Imports are timed apart. Beside the wall's seconds stand those of the process's processor: on a
machine that does other work too, they say more.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import click

from benchmarks.dlt_environment import environment
from benchmarks.generated_models import (
    contract_text,
    generate_models,
    make_tables,
    table_count,
    write_models,
    write_sqlmesh,
)
from benchmarks.location import load_note
from benchmarks.report import ROOT, Figures, Section, spread
from mirrorlake.config import load_config
from mirrorlake.models.cache.files import kept_folder

MODELS = 1_000
FIRST, END = date(2022, 1, 1), date(2025, 1, 1)
PINS = Path(__file__).with_name("sqlmesh-requirements.txt")
SIDES = Path(__file__).with_name("sides")
PASSWORD = "PLAN_PASSWORD"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class _Answer:
    """What a side says of one run; seconds of the wall and of its processor."""

    imports: float
    seconds: float
    used: float
    peak: float
    found: dict[str, int]


def run(runs: int, scale: float) -> Figures:
    """Each side ``runs`` times, in turn; ``scale`` times as many models."""
    number = max(10, round(MODELS * scale))
    os.environ[PASSWORD] = "none"
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "mirrorlake.yaml"
        path.write_text(contract_text(number), encoding="utf-8")
        models = generate_models(number)
        write_models(path.parent / "models", models, FIRST, END)
        make_tables(load_config(path), number)
        peer = Path(name) / "sqlmesh"
        tables = [f"s_d.sales_{n}" for n in range(table_count(number))]
        write_sqlmesh(peer, models, FIRST, tables)
        changed = path.parent / "models" / models[0].path
        return [_loads(path, changed, peer, number, runs), _changes(path, changed, runs)]


def _loads(path: Path, changed: Path, peer: Path, number: int, runs: int) -> Section:
    ours = [sys.executable, str(SIDES / "plan_ours.py"), str(path)]
    theirs = [*environment("sqlmesh", PINS), str(SIDES / "plan_sqlmesh.py"), str(peer)]
    sides: dict[str, tuple[Callable[[], None], Sequence[str], str]] = {
        "cold": (lambda: _forget(kept_folder(path)), ours, "5"),
        "warm": (lambda: None, ours, "0.5"),
        "warm, one model's comment changed": (lambda: _touch(changed), ours, "–"),
        "SQLMesh 0.236.4, cold": (lambda: _forget(peer / ".cache"), theirs, "–"),
        "SQLMesh 0.236.4, warm": (lambda: None, theirs, "–"),
    }
    answers: dict[str, list[_Answer]] = {name: [] for name in sides}
    for _ in range(runs + 1):
        for name, (prepare, command, _limit) in sides.items():
            prepare()
            answers[name].append(_answer(command))
    rows: list[tuple[str, ...]] = []
    for name, (_, _, limit) in sides.items():
        some = answers[name][1:]  # the first fills the caches of compiled modules
        wall = spread([one.seconds for one in some])
        used, imports = (
            spread(values)[0]
            for values in ([one.used for one in some], [one.imports for one in some])
        )
        peak = f"{max(one.peak for one in some):.0f}"
        rows.append((name, *wall, used, limit, imports, peak))
    found = answers["warm"][-1].found
    about = (
        f"{number:,} generated models of {found['tables']} mirrored tables, {FIRST} to {END}: "
        f"{found['partitions']:,} partitions, whose inputs {found['rules']:,} rules say. Ours is "
        "the whole of the work of a command before it looks at the state of partitions: files, the "
        "lake's columns, types, lineage, and what each partition reads."
    )
    columns = ("side", "median s", "min", "max", "median CPU s", "limit", "imports s", "peak MB")
    return Section("A project is loaded", about, columns, tuple(rows), (_peer_note(), load_note()))


def _peer_note() -> str:
    return (
        "SQLMesh loads its context (`sqlmesh.Context`) in an environment of its own: the same "
        "queries as models by time range, and the mirrored tables as external ones; each model's "
        "columns are asked for. Its types are its optimizer's, and it has no word for which "
        "partitions of another a partition reads. Seconds of neither side hold the imports."
    )


def _changes(path: Path, changed: Path, runs: int) -> Section:
    """One process, as a daemon's."""
    command = [sys.executable, str(SIDES / "plan_changes.py"), str(path), str(changed), str(runs)]
    found: dict[str, list[float]] = json.loads(_output(command))
    base = statistics.median(found["nothing"])
    rows = [("nothing changed", *spread(found["nothing"]), "–", "–")]
    for name, words, limit in (
        ("condition", "a condition", "50"),
        ("column", "a column is new: those that read the model are bound again, too", "–"),
    ):
        more = 1_000 * (statistics.median(found[name]) - base)
        rows.append((words, *spread(found[name]), f"{more:.0f}", limit))
    about = (
        "One model that others read is changed, in a process that compiled the project before; its "
        "file, and the contract, are read again each time. *More* is what the median takes more "
        "than where nothing changed."
    )
    columns = ("change", "median s", "min", "max", "more, ms", "limit, ms")
    return Section("One model changed", about, columns, tuple(rows), (load_note(),))


def _forget(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _touch(path: Path) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write("-- changed\n")


def _answer(command: Sequence[str]) -> _Answer:
    return _Answer(**json.loads(_output(command)))


def _output(command: Sequence[str]) -> str:
    """The last line that a side prints.

    Raises:
        ClickException: the side failed.
    """
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise click.ClickException(f"{command[1]} failed: {ended.stderr.strip()[-2000:]}")
    return ended.stdout.strip().splitlines()[-1]
