"""Part ``fold``: a complete copy of which little changed, folded side by side.

The table: date, product_id, store_id, attribute_id, attr_value, update_id; 13 day partitions; the
key is all but the last two. ``--scale 1`` is 20 M rows, ``--scale 0.25`` 5 M. A snapshot differs in
0.04 %, 0.1 %, 1 % and 10 % of the rows (``FOLD_SHARES=0.001,0.1`` names others): 70 % of them
changed, 15 % new, 15 % missing, evenly spread. Every side has a table of its own, made alike in
this run and set back to its first version before each fold. Sides run in turn.

Bytes read are what Spark's process read of files (see
`mirrorlake.destinations.iceberg.spark.cost`), shuffles included; bytes shuffled are what its tasks
say; bytes written are the folders' growth, metadata and side tables included. The next reader
hashes every column of every row.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.fold_model import Cost, cost_model
from benchmarks.location import load_note
from benchmarks.report import Figures, Section
from mirrorlake.config import LakeConfig, SparkConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.cost import counted
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.landing.fold import SnapshotTable, fold_snapshot
from mirrorlake.ledger import Ledger

ROWS, DAYS = 20_000_000, 13
SHARES = (0.001, 0.0004, 0.01, 0.1)
TARGETS = {
    0.001: "To reach: 0.35 of both (goal 0.2), and 2 % of the table written.",
    0.1: "To reach: never slower than the better of the two.",
}
"""What is required at a share: it is run several times, at the others once."""
WHOLE = 0.001
"""At this share every side runs; at the others those that the targets name."""
_KEY = ("date", "product_id", "store_id", "attribute_id")
_COLUMNS = ", ".join((*_KEY, "attr_value"))
_ON = " AND ".join(f"t.{name} = s.{name}" for name in _KEY)
_VALUES = ", ".join(f"s.{name}" for name in (*_KEY, "attr_value", "update_id"))
_TYPES = (
    ("date", "date"),
    ("product_id", "int"),
    ("store_id", "int"),
    ("attribute_id", "int"),
    ("attr_value", "double"),
)
_NS = "bench"


@dataclass(frozen=True)
class Place:
    """The lake and what the sides fold."""

    folder: Path
    lake: Lake
    ledger: Ledger
    spark: Any

    def table(self, name: str) -> str:
        return f"lake.{_NS}.{name}"


# --- the sides ------------------------------------------------------------------------------------


def _merge(place: Place, name: str, rows: Any, *, only_changed: bool) -> None:
    rows.createOrReplaceTempView("snapshot")
    differs = " AND NOT (t.attr_value <=> s.attr_value)" if only_changed else ""
    place.spark.sql(
        f"MERGE INTO {place.table(name)} t USING snapshot s ON {_ON} "
        f"WHEN MATCHED{differs} THEN UPDATE SET t.attr_value = s.attr_value, "
        "t.update_id = s.update_id "
        f"WHEN NOT MATCHED THEN INSERT ({_COLUMNS}, update_id) VALUES ({_VALUES})"
    )


def _append(place: Place, name: str, rows: Any, chosen: str) -> None:
    """Append, then replace everything by the newest row of each key."""
    table = place.table(name)
    rows.writeTo(table).append()
    place.spark.sql(f"INSERT OVERWRITE {table} {chosen.format(table=table)}")


_ROW_NUMBER = (
    f"SELECT {_COLUMNS}, update_id FROM (SELECT *, row_number() OVER "
    f"(PARTITION BY {', '.join(_KEY)} ORDER BY update_id DESC) AS n FROM {{table}}) WHERE n = 1"
)
_GROUP_BY = (
    f"SELECT {', '.join(_KEY)}, newest.attr_value, newest.update_id FROM "
    f"(SELECT {', '.join(_KEY)}, max_by(struct(attr_value, update_id), update_id) AS newest "
    f"FROM {{table}} GROUP BY {', '.join(_KEY)})"
)


def _ours(place: Place, name: str, rows: Any) -> str:
    table = _shape(name)
    with place.ledger.lease(name, "bench") as lease:
        folded = fold_snapshot(
            place.lake, place.ledger, table, rows.drop("update_id"), 2, lease=lease
        )
    return folded.strategy


def _shape(name: str) -> SnapshotTable:
    return SnapshotTable(name, Identifier(_NS, name), _TYPES, _KEY, "date")


SIDES: dict[str, tuple[Callable[[Place, str, Any], Any], str]] = {
    "MERGE, copy-on-write": (lambda p, n, r: _merge(p, n, r, only_changed=True), "copy-on-write"),
    "append, row_number, replace": (
        lambda p, n, r: _append(p, n, r, _ROW_NUMBER),
        "copy-on-write",
    ),
    "Mirrorlake": (_ours, ""),
    "conditional MERGE, merge-on-read": (
        lambda p, n, r: _merge(p, n, r, only_changed=True),
        "merge-on-read",
    ),
    "append, GROUP BY, replace": (lambda p, n, r: _append(p, n, r, _GROUP_BY), "copy-on-write"),
    "MERGE of every match": (lambda p, n, r: _merge(p, n, r, only_changed=False), "copy-on-write"),
}
_ALWAYS = 3
_SETS_ALL = ("append, row_number, replace", "append, GROUP BY, replace", "MERGE of every match")
"""Sides that set update_id on rows that did not change."""


# --- running --------------------------------------------------------------------------------------


def run(runs: int, scale: float) -> Figures:
    """Seconds and bytes of every side at every share: the median of ``runs`` of those that the
    targets name, one run of the others."""
    rows = max(10_000, round(ROWS * scale))
    given = os.environ.get("FOLD_SHARES")
    shares = tuple(float(part) for part in given.split(",")) if given else SHARES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lake = Lake(LakeConfig(warehouse=str(folder / "lake")))
        session = LazySpark(SparkConfig(), lake)
        try:
            ledger = Ledger(f"sqlite:///{folder}/ledger.db")
            place = Place(folder, lake, ledger, session.get())
            return list(_measure(place, rows, shares, runs))
        finally:
            session.stop()


def _measure(place: Place, rows: int, shares: Sequence[float], runs: int) -> list[Section]:
    base = _write(place, rows, 0.0)
    for name, (_, mode) in SIDES.items():
        _make(place, _name(name), base, mode)
    size = _bytes(place, _name("Mirrorlake"))
    sections: dict[float, Section] = {}
    costs: dict[float, dict[str, Cost]] = {}
    for share in shares:
        snapshot = _write(place, rows, share)
        often = runs if share in TARGETS else 1
        found = _in_turn(place, [*SIDES][:_ALWAYS], snapshot, often)
        for name in [*SIDES][_ALWAYS:] if share == WHOLE else ():
            found[name] = _once(place, name, snapshot)
        _compare(place, list(found))
        if share == WHOLE:
            found["Mirrorlake, from JSON"] = _from_json(place, snapshot)
        compacted = _compacted_scan(place, runs)
        sections[share] = _section(rows, share, runs, found, size, compacted)
        costs[share] = found
        for name in SIDES:
            _set_back(place, _name(name))
    cores = place.spark.sparkContext.defaultParallelism
    # What a fold costs whatever it folds would be carried over with the rest.
    ordered = dict(sorted(costs.items()))
    model = [cost_model(ordered, size, cores)] if rows >= 1_000_000 else []
    return [*(sections[share] for share in ordered), *model]


def _write(place: Place, rows: int, share: float) -> Path:
    """A snapshot as Parquet files, one a day; share 0 is the first."""
    path = place.folder / f"snapshot-{share:g}"
    new = round(rows * share * 0.15)
    draw = "(pmod(xxhash64(id, 'draw'), 100000000L) / 100000000D)"
    frame = place.spark.range(rows + new).selectExpr(
        f"DATE'2026-01-01' + CAST(id % {DAYS} AS INT) AS date",
        f"CAST(id DIV {DAYS * 4000} AS INT) AS product_id",
        f"CAST(id DIV {DAYS * 20} % 200 AS INT) AS store_id",
        f"CAST(id DIV {DAYS} % 20 AS INT) AS attribute_id",
        "pmod(xxhash64(id), 1000000000000L) / 10000D "
        f"+ IF(id < {rows} AND {draw} BETWEEN {0.15 * share} AND {0.85 * share}, 1D, 0D) "
        "AS attr_value",
        f"id < {rows} AND {draw} < {0.15 * share} AS gone",
    )
    frame.where("NOT gone").drop("gone").repartition(DAYS, "date").write.parquet(str(path))
    return path


def _make(place: Place, name: str, base: Path, mode: str) -> None:
    rows = place.spark.read.parquet(str(base))
    if not mode:
        with place.ledger.lease(name, "bench") as lease:
            fold_snapshot(place.lake, place.ledger, _shape(name), rows, 1, lease=lease)
        return
    modes = ", ".join(f"'write.{verb}.mode'='{mode}'" for verb in ("merge", "update", "delete"))
    place.lake.make_namespace(_NS)
    place.spark.sql(
        f"CREATE TABLE {place.table(name)} (date DATE, product_id INT, store_id INT, "
        "attribute_id INT, attr_value DOUBLE, update_id BIGINT) USING iceberg "
        f"PARTITIONED BY (date) TBLPROPERTIES ('format-version'='2', {modes}, "
        "'write.parquet.compression-codec'='zstd')"
    )
    rows.selectExpr("*", "1L AS update_id").writeTo(place.table(name)).append()


def _in_turn(place: Place, names: Sequence[str], snapshot: Path, runs: int) -> dict[str, Cost]:
    """The median of each side; where there are several runs, after one that warms it."""
    found: dict[str, list[Cost]] = {name: [] for name in names}
    for number in range(runs + 1 if runs > 1 else runs):
        for name in names:
            cost = _once(place, name, snapshot)
            if number or runs == 1:
                found[name].append(cost)
    return {name: _median(costs) for name, costs in found.items()}


def _once(place: Place, name: str, snapshot: Path) -> Cost:
    return _folded(place, name, place.spark.read.parquet(str(snapshot)))


def _folded(place: Place, name: str, rows: Any) -> Cost:
    table = _name(name)
    _set_back(place, table)
    rows = rows.selectExpr("*", "2L AS update_id")
    fold, _ = SIDES[name]
    before, files, begun = _newest_stage(place.spark), _bytes(place, table), time.perf_counter()
    with counted(place.spark) as scan:
        strategy = fold(place, table, rows)
    seconds, read = time.perf_counter() - begun, scan.bytes or 0
    shuffled, memory = _tasks(place.spark, before)
    written = _bytes(place, table) - files
    scanned, spread = _scan(place, table), (seconds, seconds)
    return Cost(seconds, read, written, shuffled, memory, scanned, strategy or "", spread)


def _scan(place: Place, table: str) -> float:
    begun = time.perf_counter()
    place.spark.sql(f"SELECT sum(hash(*)) FROM {place.table(table)}").collect()
    return time.perf_counter() - begun


def _compacted_scan(place: Place, runs: int) -> float:
    """The next reader's seconds over our table once its small files and deletes are folded."""
    name = f"{_NS}.{_name('Mirrorlake')}"
    place.spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{name}', "
        "options => map('rewrite-all', 'true'))"
    ).collect()
    return median(_scan(place, _name("Mirrorlake")) for _ in range(max(1, runs)))


def _median(found: Sequence[Cost]) -> Cost:
    return replace(
        found[-1],
        seconds=median(cost.seconds for cost in found),
        spread=(min(cost.seconds for cost in found), max(cost.seconds for cost in found)),
        scan=median(cost.scan for cost in found),
    )


def _from_json(place: Place, snapshot: Path) -> Cost:
    """The same snapshot as newline-delimited JSON, one file a day."""
    path = str(place.folder / "json")
    place.spark.read.parquet(str(snapshot)).write.json(path)
    schema = "date DATE, product_id INT, store_id INT, attribute_id INT, attr_value DOUBLE"
    rows = place.spark.read.schema(schema).json(path)
    return _folded(place, "Mirrorlake", rows)


def _compare(place: Place, names: Sequence[str]) -> None:
    """Every side holds the same rows; of those that change update_id where a row changed, that
    too."""
    sums: dict[str, tuple[Any, ...]] = {}
    for name in names:
        number = "_mirror_snapshot" if name == "Mirrorlake" else "update_id"
        number = "0L" if name in _SETS_ALL else number
        found = place.spark.sql(
            f"SELECT count(*), sum(hash({_COLUMNS})), sum(hash({_COLUMNS}, {number})) "
            f"FROM {place.table(_name(name))}"
        ).first()
        sums[name] = tuple(found)
    first = sums["Mirrorlake"]
    for name, found in sums.items():
        assert found[:2] == first[:2], f"{name} holds other rows than ours: {found}, {first}"
        assert name in _SETS_ALL or found == first, f"{name} changed other rows: {found}, {first}"


def _set_back(place: Place, name: str) -> None:
    """Show the first version again: what readers saw before any fold of this run."""
    table = place.lake.load(Identifier(_NS, name))
    assert table is not None
    first = next(s for s in table.history()).snapshot_id
    if name == _name("Mirrorlake"):
        sealed = [s for s in table.snapshots() if _number(s) == "1"]
        first = sealed[0].snapshot_id
    current = table.current_snapshot()
    if current is not None and current.snapshot_id != first:
        table.manage_snapshots().set_current_snapshot(snapshot_id=first).commit()


def _number(snapshot: Any) -> str | None:
    summary = snapshot.summary
    return summary.additional_properties.get("mirrorlake.snapshot") if summary else None


def _name(side: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in side.lower())


def _bytes(place: Place, name: str) -> int:
    """What a table's folder and those of its side tables hold."""
    root = place.folder / "lake"
    folders = [root / _NS / name, *(root / f"{_NS}__side").glob(f"{name}__*")]
    return sum(f.stat().st_size for folder in folders for f in folder.rglob("*") if f.is_file())


def _stages(spark: Any) -> list[Any]:
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()
    none = context._gateway.new_array(context._jvm.double, 0)
    stages = store.stageList(None, False, False, none, None)
    return [stages.apply(number) for number in range(stages.length())]


def _newest_stage(spark: Any) -> int:
    return max((stage.stageId() for stage in _stages(spark)), default=-1)


def _tasks(spark: Any, after: int) -> tuple[int, int]:
    """What the stages after one have shuffled, and the most memory of one of them. (Spark remembers
    the newest 1,000: more than one fold has.)"""
    found = [stage for stage in _stages(spark) if stage.stageId() > after]
    return (
        sum(s.shuffleWriteBytes() for s in found),
        max((s.peakExecutionMemory() for s in found), default=0),
    )


def _section(
    rows: int, share: float, runs: int, found: dict[str, Cost], size: int, compacted: float
) -> Section:
    merge, append = (found[name] for name in [*SIDES][:2])
    lines = [
        (
            f"{name} ({cost.strategy})" if cost.strategy else name,
            f"{cost.seconds:.1f}",
            f"{cost.spread[0]:.1f}–{cost.spread[1]:.1f}" if cost.spread[0] < cost.spread[1] else "",
            f"{cost.seconds / merge.seconds:.2f}",
            f"{cost.seconds / append.seconds:.2f}",
            f"{cost.read / 1e6:.1f}",
            f"{cost.written / 1e6:.2f}",
            f"{cost.written / size:.1%}",
            f"{cost.shuffled / 1e6:.1f}",
            f"{cost.memory / 1e6:.0f}",
            f"{cost.scan:.2f}",
        )
        for name, cost in found.items()
    ]
    columns = ("side", "s", "from–to", "of MERGE", "of append", "read MB", "written MB")
    columns += ("of the table", "shuffled MB", "execution memory MB", "next full scan s")
    about = (
        f"{rows:,} rows in {DAYS} days, {share:.2%} of them differ; the table has "
        f"{size / 1e6:.0f} MB. {TARGETS.get(share, '')}"
    )
    ours = found["Mirrorlake"]
    notes = (
        f"{_often(runs, share)}All sides hold the same rows, and equal update_ids where a side "
        "sets it on changes alone. Execution memory is the most of one stage.",
        f"The same scan over our table once it is compacted: {compacted:.2f} s; its next reader "
        f"pays {ours.scan / compacted:.2f} times that. {load_note()}",
    )
    return Section(
        f"Fold of a snapshot, {share:.2%} changed", about.strip(), columns, tuple(lines), notes
    )


def _often(runs: int, share: float) -> str:
    if share not in TARGETS or runs == 1:
        return "Each side ran once. "
    words = f"The first three: the median of {runs}, in turn, after one that warmed them"
    return f"{words}; others ran once. " if share == WHOLE else f"{words}. "
