"""Part ``scale-latency``: the first sync of 100 small tables into a bucket, of which each call
takes 50 ms, beside the same without a delay.

The bucket is an emulator's of Cloud Storage in memory; before it stands a proxy that waits and
counts (`tests.support.slow_store`). Each sync is a cold process into a folder of its own. A call
waits by itself, however many there are: neither bandwidth nor a limit of requests is shown.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import yaml

from benchmarks.location import load_note
from benchmarks.many import ROWS, Times, change, make_tables, ours, timed, write_contract
from benchmarks.report import Figures, Section, spread
from benchmarks.source import Source, started
from mirrorlake.config import load_config
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.sources.files.gcs_store import gcs_client
from mirrorlake.workspace import Workspace
from tests.support.gcs_process import emulator_process
from tests.support.slow_store import CLASS_A, CLASS_B, FREE, Calls, SlowStore, slow_store

TABLES, DELAY, LOADS = 100, 0.05, 100
BUCKET = "lake"
SYNCS = (
    ("0 ms a call", 0.0, ()),
    ("50 ms a call", DELAY, ()),
    ("50 ms, `--jobs 1`", DELAY, ("--jobs", "1")),
)
"""What is run: its name, seconds a call, and the command's options."""
FIRST, AGAIN, CHANGED = "first", "nothing moved", "one incremental table in ten changed"


def run(runs: int, scale: float) -> Figures:
    """All syncs, ``runs`` times each; ``scale`` times as many tables."""
    tables = max(4, round(TABLES * scale))
    found: dict[tuple[str, str], Times] = {}
    calls: dict[tuple[str, str], Calls] = {}
    with started() as source:
        os.environ["MIRRORLAKE_INIT_PASSWORD"] = source.password
        make_tables(source, tables)
        for number in range(runs):
            for place, (name, delay, options) in enumerate(SYNCS):
                # One each: the emulator is the slower the more objects it has.
                with emulator_process(BUCKET) as host, slow_store(host) as store:
                    store.set_delay(delay)
                    path = _contract(source, store, f"{number}-{place}")
                    kinds = (FIRST, AGAIN, CHANGED) if not options else (FIRST,)
                    for kind in kinds:
                        if kind == CHANGED:
                            change(source, number, range(1, tables, 10))
                        store.take_calls()
                        timed(ours("sync", path, *options), found.setdefault((name, kind), Times()))
                        calls[name, kind] = store.take_calls()
        with emulator_process(BUCKET) as host, slow_store(host) as store:
            load = _loads(source, store, max(10, round(LOADS * scale)))
    return [_section(found, calls, tables, runs), _kinds(calls, tables), load]


def _contract(source: Source, store: SlowStore, name: str) -> Path:
    home = source.folder / name
    home.mkdir()
    path = write_contract(source, home)
    text = yaml.safe_load(path.read_text("utf-8"))
    catalog = {"uri": "sqlite:///catalog.db", "properties": {"gcs.service.host": store.endpoint}}
    text["lake"] = {"warehouse": f"gs://{BUCKET}/{name}", "catalog": catalog}
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    return path


def _section(
    found: dict[tuple[str, str], Times],
    calls: dict[tuple[str, str], Calls],
    tables: int,
    runs: int,
) -> Section:
    fastest = statistics.median(found[SYNCS[0][0], FIRST].wall)
    rows = tuple(
        (
            *(name, kind, *spread(times.wall)),
            f"{statistics.median(times.wall) / fastest:.1f}" if kind == FIRST else "",
            f"{statistics.median(times.cpu):.1f}",
            f"{calls[name, kind].all:,}",
            str(calls[name, kind].at_once),
            f"{times.peak:.0f}",
        )
        for (name, kind), times in found.items()
    )
    columns = ("delay", "sync", "median s", "min", "max", "of 0 ms", "median CPU s", "calls")
    columns += ("at once, most", "peak MB")
    about = (
        f"{tables} tables of {ROWS:,} rows, half with a cursor; catalog and ledger in SQLite; cold "
        f"processes, {runs} of each. On two cores eight small tables are synced at once where the "
        "warehouse is in a bucket; with `--jobs 1`, one."
    )
    return Section("A bucket that is far away", about, columns, rows, (load_note(),))


def _kinds(calls: dict[tuple[str, str], Calls], tables: int) -> Section:
    """What a cloud bills, a table: of the sync with a delay, which calls as often as any other."""
    name = SYNCS[1][0]
    moved = {FIRST: tables, AGAIN: tables, CHANGED: -(-tables // 10)}
    rows = tuple(
        (
            kind,
            f"{moved[kind]:,}",
            *_each(calls[name, kind], moved[kind], (CLASS_A, CLASS_B, FREE)),
            ", ".join(f"{what}: {n:,}" for what, n in sorted(calls[name, kind].by_kind.items())),
        )
        for kind in moved
    )
    columns = ("sync", "tables", "class A a table", "class B a table", "free a table", "requests")
    about = (
        "Inserts, copies and listings are class A, reads class B; deletes, and the second request "
        "of an upload, are free. What a sync calls once, for all of its tables, is in it."
    )
    return Section("What is called for a table", about, columns, rows)


def _each(calls: Calls, tables: int, kinds: Sequence[str]) -> list[str]:
    return [f"{calls.billed(kind) / tables:.1f}" for kind in kinds]


def _loads(source: Source, store: SlowStore, loads: int) -> Section:
    """What one more load of a table calls, and leaves: many of one, each of one changed row, in a
    process that is warm."""
    path = _contract(source, store, "loads")
    text = yaml.safe_load(path.read_text("utf-8"))
    [server] = text["sources"].values()
    server["databases"]["many"]["tables"] = {"t1": server["databases"]["many"]["tables"]["t1"]}
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    config = load_config(path)
    [contract] = config.tables
    with Workspace.open(config) as workspace:
        sync_table(workspace, contract)
        before, begun = _held(path, store), os.times()
        store.take_calls()
        for number in range(loads):
            change(source, number, [1])
            sync_table(workspace, contract)
        calls, used, after = store.take_calls(), os.times(), _held(path, store)
        made = len(workspace.ledger.successful_loads(contract.name)) - 1
    cpu = used.user + used.system - begun.user - begun.system
    grown = [
        f"{(there - here) / made / 1e3:.2f}" for here, there in zip(before, after, strict=True)
    ]
    row = (
        f"{made:,}",
        *(f"{calls.billed(kind) / made:.1f}" for kind in (CLASS_A, CLASS_B, FREE)),
        *grown,
        f"{cpu / made:.3f}",
    )
    columns = ("loads", "class A a load", "class B a load", "free a load")
    columns += ("ledger, kB a load", "catalog, kB a load", "bucket, kB a load", "CPU s a load")
    about = (
        f"One table of {ROWS:,} rows with a cursor, {made:,} loads of one changed row each, "
        "loaded, folded and shown, without a JVM; in one process, without a delay. "
        "Nothing was expired: `mirrorlake maintain` takes away what old versions hold."
    )
    return Section("One more load of few rows", about, columns, (row,))


def _held(path: Path, store: SlowStore) -> tuple[int, int, int]:
    """Bytes of the ledger, the catalog and the table's objects."""
    databases = [
        sum(file.stat().st_size for file in path.parent.rglob(f"{name}.db*"))
        for name in ("ledger", "catalog")
    ]
    blobs = gcs_client(store.endpoint).list_blobs(BUCKET, prefix="loads/")
    return databases[0], databases[1], sum(blob.size or 0 for blob in blobs)
