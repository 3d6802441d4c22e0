"""Raw's files beside what their loads recorded: written by the engine's own writer, no server."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import schema_to_pyarrow

from mirrorlake.config import LakeConfig, Namespaces, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import (
    LOAD_ID,
    NUMBER,
    RECEIPT,
    WINDOW,
    Commit,
    commit_load,
    head_of,
)
from mirrorlake.destinations.iceberg.commits.data_files import PartFiles
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.schemas import raw_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_raw_table
from mirrorlake.errors import LakeDamaged
from mirrorlake.ledger import Ledger, Load, Receipt, Window
from mirrorlake.ledger.tables import LOADS
from mirrorlake.load.raw.raw_files import (
    ALTERED,
    FOREIGN,
    LOST,
    digest_of_files,
    record_written,
    refuse_damaged,
    replaced_files,
)
from mirrorlake.load.raw.raw_proof import RawLook, prove_raw
from mirrorlake.load.row_hashes.digest import digest_of
from mirrorlake.schema.versions import Exact, SchemaVersion

DAY = date(2026, 1, 2)
COLUMNS = (Exact("id", "int", "id"), Exact("v", "string", "v"))
VERSION = SchemaVersion("t", (("id", "int"), ("v", "varchar(9)")))
CONTRACT = TableContract(
    source="s",
    database="d",
    table="t",
    mode="append",
    key=("id",),
    cursor="id",
    namespaces=Namespaces(raw="r", deduped="dd", clean="c"),
)


class World:
    """A raw table and its ledger, loaded as the engine loads: files, record, commit, success."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(LakeConfig(warehouse=str(folder / "läke")))
        self.ledger = Ledger(f"sqlite:///{folder / 'ledger.db'}")
        self.raw = Identifier("r", VERSION.raw_table)
        schema = raw_schema(COLUMNS, with_key=False)
        self.ledger.record_schema_version(CONTRACT.name, VERSION)
        self.table = ensure_raw_table(self.lake, self.raw, schema, CONTRACT.name, VERSION)

    def rows(self, load: Load, ids: list[int], *, deleted: bool = False) -> pa.Table:
        schema = schema_to_pyarrow(self.table.schema())
        values = {
            "id": ids,
            "v": [f"v{n}" for n in ids],
            "_mirror_load": [load.load_id] * len(ids),
            "_mirror_seq": [load.seq] * len(ids),
            "_mirror_deleted": [deleted] * len(ids),
            "_mirror_day": [DAY] * len(ids),
        }
        arrays = [pa.array(values.get(f.name, [None] * len(ids)), f.type) for f in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def load(
        self,
        ids: list[int],
        *,
        removes: frozenset[str] = frozenset(),
        recorded: bool = True,
        of_rows: bool = False,
    ) -> Load:
        ledger, window = self.ledger, Window("live", None, None, DAY)
        with ledger.lease(CONTRACT.name, "test") as lease:
            load_id = ledger.create_load(CONTRACT.name, window)
            parent = head_of(self.lake, self.raw)
            load = ledger.start_load(load_id, lease, "test", self.raw.name, parent)
            table = self.lake.catalog.load_table(self.raw.path)
            files = PartFiles(
                dict(table.io.properties),
                table.location(),
                f"{load_id}-1-00000",
                schema_to_pyarrow(table.schema()),
                table.schema().model_dump_json(),
            )
            rows = self.rows(load, ids)
            files.add(rows)
            gone = files_of(files)
            metrics = {file.path: file.metrics for file in gone}
            of = digest_of(rows.select(["id", "v"])) if of_rows else None
            digest = digest_of_files([*metrics.items()]) if of is None else f"{of:016x}"
            receipt = receipt_of(rows, sum(file.bytes for file in gone), digest)
            if recorded:
                record_written(ledger, load, table.location(), metrics)
            properties = {
                LOAD_ID: load_id,
                NUMBER: str(load.seq),
                WINDOW: window.to_json(),
                RECEIPT: receipt.to_json(),
            }
            commit = Commit(
                self.raw, parent, list(metrics), properties, removes=removes, metrics=metrics
            )
            at = commit_load(self.lake, commit)
            ledger.forget_raw_files(load.table, replaced_files(self.lake, self.raw, at))
            ledger.finish_load(load, at, receipt)
        return ledger.successful_loads(CONTRACT.name)[-1]

    def paths(self, load: Load) -> list[str]:
        table = self.lake.catalog.load_table(self.raw.path)
        found = [task.file.file_path for task in table.scan().plan_files()]
        return [path for path in found if load.load_id in path]

    def look(self, **given: Any) -> RawLook:
        return prove_raw(self.lake, self.ledger, CONTRACT, **given)

    def refuse(self, *loads: Load) -> int:
        return refuse_damaged(self.lake, self.ledger, CONTRACT, loads, set())


def files_of(files: PartFiles) -> Any:
    return files.finish()


def receipt_of(rows: pa.Table, size: int, digest: str) -> Receipt:
    return Receipt(
        rows=rows.num_rows,
        bytes=size,
        files=1,
        digest=digest,
        moment="2026-01-02 00:00:00",
        hi=None,
        server="m",
        position="p",
        originals=0,
        future=0,
        query_seconds=0.0,
    )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def local(path: str) -> Path:
    return Path("/" + path.removeprefix("file:").lstrip("/"))


def test_what_loads_wrote_is_equal_byte_by_byte(world: World) -> None:
    loads = [world.load([1, 2]), world.load([3])]
    look = world.look()
    assert (look.verdict, look.files, look.read, look.rows, look.unknown) == ("equal", 2, 2, 3, 0)
    assert look.digest == look.expected
    assert all(f.checked_at for f in world.ledger.raw_files(CONTRACT.name))
    assert world.refuse(*loads) == 0


def flip(path: Path) -> None:
    """Another byte in the middle, the same length and a sound footer: nothing else sees it."""
    content = bytearray(path.read_bytes())
    content[10] ^= 0xFF
    path.write_bytes(content)


HARMS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "flipped": (flip, ALTERED),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:100]), "has 100 bytes of"),
    "gone": (Path.unlink, "is not there"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_file_that_is_not_what_its_load_wrote_is_found_before_it_is_folded(
    world: World, harm: str
) -> None:
    sound, harmed = world.load([1, 2]), world.load([3])
    act, what = HARMS[harm]
    (path,) = world.paths(harmed)
    act(local(path))
    look = world.look()
    assert look.verdict == "different"
    assert [(one.path, one.what.startswith(what)) for one in look.found] == [(path, True)]
    assert look.digest != look.expected
    with pytest.raises(LakeDamaged, match="not what was loaded") as caught:
        world.refuse(sound, harmed)
    assert path in str(caught.value)
    # A fold that reads other files is not stopped by it.
    assert world.refuse(sound) == 0


def test_a_file_with_the_same_rows_of_another_hand_is_found(world: World) -> None:
    """Replaced in place by a file of the same rows: no digest of rows would see it."""
    load = world.load([1, 2])
    (path,) = world.paths(load)
    other = replace(load, load_id=uuid.uuid4().hex)
    world.table.io.delete(path)
    pq.write_table(world.rows(other, [1, 2]), local(path))
    assert world.look().verdict == "different"


def test_a_file_that_no_load_wrote_is_found_and_not_folded(world: World) -> None:
    load = world.load([1, 2])
    table = world.lake.catalog.load_table(world.raw.path)
    # It even carries the number of a load, so a fold of that load would take its row.
    table.append(world.rows(load, [99]).cast(table.schema().as_arrow()))
    look = world.look()
    assert [one.what for one in look.found] == [FOREIGN]
    with pytest.raises(LakeDamaged, match="no load wrote it"):
        world.refuse(load)
    # Taken out again, its commit stays in the history, and raw is sound.
    table = world.lake.catalog.load_table(world.raw.path)
    table.delete("id = 99")
    assert world.look().verdict == "equal"
    assert world.refuse(load) == 0


def test_a_file_that_somebody_took_out_is_lost(world: World) -> None:
    load = world.load([1, 2])
    world.lake.catalog.load_table(world.raw.path).delete(AlwaysTrue())
    look = world.look()
    assert [one.what for one in look.found] == [LOST]
    with pytest.raises(LakeDamaged, match="not in raw any more"):
        world.refuse(load)


def test_what_a_load_of_ours_replaced_is_not_lost(world: World) -> None:
    first = world.load([1, 2])
    second = world.load([1, 2, 3], removes=frozenset(world.paths(first)))
    look = world.look()
    assert (look.verdict, look.files, look.rows) == ("equal", 1, 3)
    assert {record.seq for record in world.ledger.raw_files(CONTRACT.name)} == {second.seq}


@pytest.mark.parametrize("of_rows", [False, True], ids=["files", "rows, of an earlier release"])
def test_loads_without_a_record_are_unknown_until_their_receipt_vouches_for_them(
    world: World, of_rows: bool
) -> None:
    """As after an upgrade, or with a ledger that was rebuilt from the lake."""
    old = world.load([1, 2], recorded=False, of_rows=of_rows)
    world.load([3])
    assert world.refuse(old) == 1
    with world.ledger.lease(CONTRACT.name, "another run"):
        held = world.look()
    assert (held.verdict, held.unknown, held.unknown_loads) == ("undecided", 1, 1)
    look = world.look()
    assert (look.verdict, look.files, look.unknown) == ("equal", 2, 0)
    assert {r.basis for r in world.ledger.raw_files(CONTRACT.name, {old.seq})} == {"receipt"}
    assert world.refuse(old) == 0


@pytest.mark.parametrize("of_rows", [False, True], ids=["files", "rows, of an earlier release"])
def test_what_no_receipt_digested_is_never_vouched_for(world: World, of_rows: bool) -> None:
    old = world.load([1, 2], recorded=False, of_rows=of_rows)
    (path,) = world.paths(old)
    rows = pq.read_table(local(path))
    at = rows.schema.get_field_index("v")
    pq.write_table(rows.set_column(at, rows.schema.field(at), pa.array(["v1", "x2"])), local(path))
    look = world.look()
    assert look.verdict == "different"
    assert f"are not what load {old.load_id} wrote" in look.found[0].what
    assert world.ledger.raw_files(CONTRACT.name) == []


def test_part_of_an_old_load_stays_unknown(world: World) -> None:
    """A reload took one of its files: the rest can't be held against its receipt."""
    old = world.load([1, 2], recorded=False)
    assert old.receipt is not None
    receipt = replace(old.receipt, rows=5)
    with world.ledger._database.begin() as connection:  # the receipt of a load of more files
        connection.execute(LOADS.update().values(receipt=receipt.to_json()))
    look = world.look()
    assert (look.verdict, look.unknown, look.found) == ("undecided", 1, ())


def test_a_commit_that_the_ledger_does_not_know_yet_decides_nothing(world: World) -> None:
    world.load([1])
    load = world.load([2])
    with world.ledger._database.begin() as connection:
        mine = LOADS.c.seq == load.seq
        connection.execute(LOADS.update().where(mine).values(state="pending"))
    look = world.look()
    assert (look.verdict, look.unsettled, look.found) == ("undecided", True, ())


def test_a_bounded_look_reads_what_was_read_longest_ago(world: World) -> None:
    for number in range(3):
        world.load([number])
    first = world.look(most_bytes=1)
    assert (first.verdict, first.read, first.files) == ("undecided", 1, 3)
    assert [world.look(most_bytes=1).read for _ in range(2)] == [1, 1]
    checked = [f.checked_at for f in world.ledger.raw_files(CONTRACT.name)]
    assert None not in checked
    assert datetime.now(UTC) >= max(c for c in checked if c)
