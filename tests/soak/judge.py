"""What must hold of a mirror once everything that was killed has been put right."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table
from pymysql.connections import Connection

from demo.oracle import check_clean, compare_table
from demo.oracle_text import read_source
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.model import history, snapshot_property
from tests.soak.steps import Watcher


@dataclass
class Findings:
    """Faults by kind, each with what it was; all empty is what we want."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    def __iadd__(self, other: Findings) -> Findings:
        for name, found in vars(other).items():
            getattr(self, name).extend(found)
        return self

    @property
    def none(self) -> bool:
        return not any(vars(self).values())


def find_open(watcher: Watcher, *, reloads: bool = True) -> Findings:
    """Windows, loads, leases and folds that nobody ended.

    Without ``reloads``: a reload that was asked and never read is a gap, until its days are read.
    """
    found = Findings()
    name = watcher.contract.name
    for kind in ("loads", "windows"):
        query = f"SELECT load_id, state FROM {kind} WHERE table_name = ? AND state NOT IN (?, ?, ?)"
        for load_id, state in watcher.ask(query, "success", "errored", "superseded"):
            if reloads or state != "created" or _kind(watcher, load_id) != "reload":
                found.stuck.append(f"{name}: {kind} {load_id} is {state}")
    if watcher.is_leased():
        found.stuck.append(f"{name}: its lease is held")
    for layer in ["deduped", *(["clean"] if watcher.contract.clean == "table" else [])]:
        query = (
            "SELECT seq FROM loads l WHERE table_name = ? AND state = 'success' AND NOT EXISTS "
            "(SELECT 1 FROM folds f WHERE f.table_name = l.table_name AND f.seq = l.seq "
            "AND f.layer = ?) AND l.seq >= ?"
        )
        for (seq,) in watcher.ask(query, layer, _history_start(watcher)):
            found.stuck.append(f"{name}: {layer} does not hold load {seq}")
    return found


def _history_start(watcher: Watcher) -> int:
    """The number of the load with which the table's history began: no fold reaches behind it."""
    query = (
        "SELECT receipt FROM loads WHERE table_name = ? AND state = 'success' "
        "ORDER BY seq DESC LIMIT 1"
    )
    found = watcher.ask(query)
    return int(json.loads(found[0][0]).get("began", 0)) if found else 0


def _kind(watcher: Watcher, load_id: str) -> str:
    query = "SELECT kind FROM windows WHERE table_name = ? AND load_id = ?"
    return str(watcher.ask(query, load_id)[0][0])


def find_disagreements(watcher: Watcher) -> Findings:
    """Each load that the ledger calls a success is once in the lake, and no other one is."""
    found = Findings()
    name = watcher.contract.name
    committed = [
        load_id
        for table in watcher.raw_tables()
        # What a killed load left on a branch was never shown, and is no commit.
        for snapshot in history(table)
        if (load_id := snapshot_property(snapshot, LOAD_ID)) is not None
    ]
    found.doubled += [
        f"{name}: load {i} was committed {committed.count(i)} times"
        for i in sorted(set(committed))
        if committed.count(i) > 1
    ]
    query = (
        "SELECT load_id, snapshot_id, receipt FROM loads WHERE table_name = ? AND state = 'success'"
    )
    successes = watcher.ask(query)
    named = {load_id for load_id, snapshot, _ in successes if snapshot is not None}
    found.lost += [f"{name}: load {i} is no commit" for i in sorted(named - set(committed))]
    found.doubled += [f"{name}: load {i} is unknown" for i in sorted(set(committed) - named)]
    known = {load_id for load_id, _, _ in successes}
    rows: dict[str, int] = {}
    for table in watcher.raw_tables():
        for load_id in table.scan(selected_fields=("_mirror_load",)).to_arrow()[0].to_pylist():
            rows[load_id] = rows.get(load_id, 0) + 1
    found.doubled += [f"{name}: rows of load {i}, no success" for i in sorted(rows.keys() - known)]
    for load_id, _, receipt in successes:
        # A reload, a full copy and a table without a key take the place of others' rows.
        if rows.get(load_id, 0) > json.loads(receipt)["rows"]:
            found.doubled.append(f"{name}: load {load_id} has more rows than it read")
    return found


def find_other_versions(watcher: Watcher) -> Findings:
    """Each row of raw, of whichever version, is once in the table of all versions, where the
    contract wants one."""
    found, name = Findings(), watcher.contract.name
    if watcher.contract.versions != "table":
        return found
    expected: Counter[tuple[str, ...]] = Counter()
    for raw in watcher.raw_tables():
        expected += _rows_of(watcher, raw, version=raw.name()[-1].rpartition("_v_")[2])
    table = watcher.versions_table()
    shown = _rows_of(watcher, table) if table is not None else Counter[tuple[str, ...]]()
    found.lost += [f"{name}: {row} is not in the table of versions" for row in expected - shown]
    found.doubled += [f"{name}: {row} is too many in that of versions" for row in shown - expected]
    return found


def _rows_of(watcher: Watcher, table: Table, version: str = "") -> Counter[tuple[str, ...]]:
    """The rows by version, load and key; the version is a column, where it is not given."""
    names = ["_mirror_load", *watcher.contract.key] + ([] if version else ["_mirror_version"])
    rows = table.scan(selected_fields=tuple(names)).to_arrow().to_pylist()
    return Counter(
        (
            version or row["_mirror_version"],
            row["_mirror_load"],
            *(str(row[key]) for key in watcher.contract.key),
        )
        for row in rows
    )


def find_orphans(watcher: Watcher) -> list[Path]:
    """Files under the table's layers that no snapshot, and no metadata in use, names."""
    layers = [watcher.layer("deduped"), watcher.layer("clean")]
    tables = [*watcher.raw_tables(), watcher.versions_table(), *layers]
    return [path for table in tables if table is not None for path in orphans_of(table)]


def orphans_of(table: Table) -> list[Path]:
    """Files under one lake table that no snapshot, and no metadata in use, names."""
    metadata = table.metadata
    named = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    manifests: set[str] = set()
    for snapshot in metadata.snapshots:
        named.add(snapshot.manifest_list)
        manifests |= {manifest.manifest_path for manifest in snapshot.manifests(table.io)}
    named |= manifests
    if manifests:
        named |= set(table.inspect.all_files()["file_path"].to_pylist())
    paths = {"/" + str(name).removeprefix("file:").lstrip("/") for name in named}
    paths |= {str(Path(p).with_name(f".{Path(p).name}.crc")) for p in paths}
    root = Path(table.location().removeprefix("file://"))
    there = (p for p in root.rglob("*") if p.is_file() and str(p) not in paths)
    return [p for p in there if p.relative_to(root).parts[0] != "removed"]


def surplus_of(watcher: Watcher, source: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The keys that a reload of all days will leave in the mirror though MySQL has them no more.

    A deleted key is found by the small windows that raw still holds of it; one that only a first
    load of an ended day, or a reload, has read stays: the documented limit, from raw alone.
    """
    # What a load read of a day that was open; every row that a live window read.
    query = "SELECT load_id, kind, day FROM windows WHERE table_name = ? AND kind IN (?, ?)"
    open_from = {
        load_id: date.min if kind == "live" else date.fromisoformat(day)
        for load_id, kind, day in watcher.ask(query, "live", "initial")
    }
    newest: dict[tuple[str, ...], tuple[int, bool]] = {}
    findable: set[tuple[str, ...]] = set()
    ours = ("_mirror_load", "_mirror_seq", "_mirror_deleted", "_mirror_day")
    wanted = (*watcher.contract.key, *ours)
    for table in watcher.raw_tables():
        for row in table.scan(selected_fields=wanted).to_arrow().to_pylist():
            key = tuple(str(row[name]) for name in watcher.contract.key)
            if row["_mirror_day"] >= open_from.get(row["_mirror_load"], date.max):
                findable.add(key)
            if row["_mirror_seq"] >= newest.get(key, (0, False))[0]:
                newest[key] = (row["_mirror_seq"], bool(row["_mirror_deleted"]))
    held = {key for key, (_, gone) in newest.items() if not gone}
    return held - source - findable


def keys_of(admin: Connection[Any], watcher: Watcher) -> set[tuple[str, ...]]:
    """The keys of the source table, as the server prints them."""
    contract = watcher.contract
    rows = read_source(admin, contract.database, contract.table).rows
    return set(zip(*(rows[name].to_pylist() for name in contract.key), strict=True))


def find_differences(
    admin: Connection[Any], watcher: Watcher, surplus: set[tuple[str, ...]], hash_key: bytes
) -> Findings:
    """Every row and cell of deduped and clean against MySQL, by the independent oracle."""
    contract, found = watcher.contract, Findings()
    deduped = watcher.layer("deduped")
    if deduped is None:
        found.lost.append(f"{contract.name}: there is no deduped table")
        return found
    verdict = compare_table(admin, contract.database, contract.table, contract.key, deduped)
    found.lost += [f"{contract.name}: {key} is missing" for key in verdict.missing]
    extra = list(verdict.extra)
    for key in surplus:
        if key in extra:
            extra.remove(key)
        else:
            found.unexpected.append(f"{contract.name}: {key} was to stay, and is gone")
    found.doubled += [f"{contract.name}: {key} is too many" for key in extra]
    if verdict.changed_cells or verdict.types or verdict.leaked:
        found.changed.append(verdict.describe(20))
    if contract.clean == "table":
        _compare_clean(admin, watcher, surplus, hash_key, found)
    return found


def _compare_clean(
    admin: Connection[Any],
    watcher: Watcher,
    surplus: set[tuple[str, ...]],
    hash_key: bytes,
    found: Findings,
) -> None:
    contract = watcher.contract
    table = watcher.layer("clean")
    rows: pa.Table = table.scan().to_arrow() if table else pa.table({})
    source = read_source(admin, contract.database, contract.table)
    verdict = check_clean(source, contract.key, rows, contract.rules, hash_key)
    if not verdict.equal_but_for(surplus):
        found.changed.append("clean: " + verdict.describe(20))
