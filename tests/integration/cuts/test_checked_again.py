"""A cut looked at again: what was damaged, moved or removed since it was proved is found."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyiceberg.table.update.snapshot import ManageSnapshots

from mirrorlake.config import load_config
from mirrorlake.cuts import digests, recheck
from mirrorlake.cuts.ledger import Cut, Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.cuts.recheck import look_again
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
PROVED = CutTerms(prove=True, lock=True)


def said(_: str) -> None: ...


@pytest.fixture
def shop(sql: Sql, engine_for: EngineFor) -> Workspace:
    """Buyers, one with a date that the lake has no place for; orders, which are masked for readers;
    rows that MySQL deleted, and keep a flag; and a table that never had a row."""
    sql(
        "SET sql_mode = ''",
        "CREATE TABLE buyers (id INT PRIMARY KEY, name VARCHAR(20), born DATE)",
        "INSERT INTO buyers VALUES (1, 'ann', '0000-00-00'), (2, 'bob', '2001-02-03')",
        "CREATE TABLE orders (id INT PRIMARY KEY, buyer INT, amount DECIMAL(12,2), at DATETIME(3),"
        " share DOUBLE, FOREIGN KEY (buyer) REFERENCES buyers (id))",
        "INSERT INTO orders VALUES "
        + ", ".join(
            f"({n}, {n % 2 + 1}, {n}.25, '2026-01-01 00:00:00.5', {n}.1)" for n in range(99)
        ),
        "CREATE TABLE flagged (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO flagged VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE bare (id INT PRIMARY KEY)",
    )
    orders = LOG | {"clean": "table", "columns": {"amount": {"pii": "drop"}}}
    tables = {"buyers": LOG, "orders": orders, "bare": LOG, "flagged": LOG | {"deletes": "flag"}}
    workspace = engine_for(tables)
    for cut in Cuts(workspace.ledger).all("s"):  # of other tests
        Cuts(workspace.ledger).forget(cut.name)
    for one in sync_tables(workspace, workspace.config.tables):
        assert one.error is None
    sql("DELETE FROM flagged WHERE id = 2")
    return workspace


def version(workspace: Workspace, cut: Cut, table: str, layer: str = "deduped") -> Any:
    """A lake table, and the version of it in a cut."""
    (one,) = (o for o in cut.tables if o.table.endswith(f".{table}") and o.layer == layer)
    return workspace.lake.load(one.identifier), one.snapshot_id


def files(workspace: Workspace, cut: Cut, table: str, layer: str = "deduped") -> list[Path]:
    """The data files of a version."""
    lake_table, snapshot = version(workspace, cut, table, layer)
    tasks = lake_table.scan(snapshot_id=snapshot).plan_files()
    return [Path(re.sub("^file:/+", "/", task.file.file_path)) for task in tasks]


def verdicts(workspace: Workspace, cut: Cut, table: str = "") -> dict[str, str]:
    """By table and layer; of all tables, or one."""
    name = next((o.table for o in cut.tables if o.table.endswith(f".{table}")), None)
    found = look_again(workspace, cut, name)
    assert found.failures == ()
    return {f"{o.table.rsplit('.', 1)[1]} {o.layer}": o.verdict for o in found.tables}


AS_PROVED = dict.fromkeys(
    ("buyers deduped", "bare deduped", "flagged deduped", "orders deduped", "orders clean"),
    "as proved",
)


def test_a_cut_is_as_proved_while_its_tables_move_on(
    sql: Sql, shop: Workspace, command: Callable[..., Result]
) -> None:
    cut = make_cut(shop, "s", PROVED, said).cut
    assert {o.proved for o in cut.tables if o.layer == "deduped"} == {"equal"}
    sql(
        "ALTER TABLE orders ADD COLUMN later INT DEFAULT 7",
        "ALTER TABLE buyers MODIFY name VARCHAR(90)",
        "UPDATE orders SET amount = 0",
        "DELETE FROM flagged",
    )
    for one in sync_tables(shop, shop.config.tables):
        assert one.error is None
    assert verdicts(shop, cut) == AS_PROVED
    done = command("check", "--cut", cut.name, workspace=shop)
    assert done.exit_code == 0, done.exception or done.output
    assert f"{cut.name}: as proved" in done.output
    found = json.loads(command("check", "--cut", cut.name, "--json", workspace=shop).stdout)
    assert (found["verdict"], found["errors"], found["shown"]) == ("as proved", [], [])
    assert [(o["verdict"], o["orphans"], o["before"]) for o in found["foreign_keys"]] == [
        ("as counted", 0, 0)
    ]
    rows = {f"{o['table']} {o['layer']}": (o["rows"], o["proved_rows"]) for o in found["tables"]}
    assert {*rows.values()} == {(2, 2), (99, 99), (1, 1), (0, 0)}
    orders = next(c.name for c in shop.config.tables if c.table == "orders")
    one = json.loads(command("check", orders, "--cut", cut.name, "--json", workspace=shop).stdout)
    assert [o["layer"] for o in one["tables"]] == ["deduped", "clean"]
    refused = command("check", "--cut", cut.name, "--full", workspace=shop)
    assert (refused.exit_code, "--full does not go with --cut" in refused.output) == (2, True)


def test_what_became_of_its_files_and_tags_is_found(
    sql: Sql, shop: Workspace, command: Callable[..., Result]
) -> None:
    """One fault after the other, each put right again."""
    cut = make_cut(shop, "s", PROVED, said).cut
    sql("UPDATE orders SET amount = amount + 1", "UPDATE buyers SET name = 'x'")
    for one in sync_tables(shop, shop.config.tables):
        assert one.error is None
    for table, layer, damage, words in FAULTS:
        (path, *_) = files(shop, cut, table, layer)
        before = path.read_bytes()
        damage(path)
        name = next(one for one in cut.names if one.endswith(f".{table}"))
        [found] = [o for o in look_again(shop, cut, name).tables if o.verdict != "as proved"]
        assert (found.layer, found.verdict) == (layer, "changed"), damage
        assert words in found.words, damage
        path.write_bytes(before)
    # Its tags: moved, then taken away.
    lake_table, snapshot = version(shop, cut, "orders")
    head = lake_table.current_snapshot().snapshot_id
    assert head != snapshot
    with lake_table.transaction() as change:
        ManageSnapshots(transaction=change).remove_tag(cut.tag).commit()
    changed = {"orders deduped": "changed", "orders clean": "as proved"}
    assert verdicts(shop, cut, "orders") == changed
    with lake_table.refresh().transaction() as change:
        ManageSnapshots(transaction=change).create_tag(head, cut.tag).commit()
    done = command("check", "--cut", cut.name, workspace=shop)
    assert (done.exit_code, f"names version {head}" in done.output) == (9, True), done.output
    assert "makes a new one" in done.output
    # The next cut puts the tag back: the version is there.
    words = list[str]()
    make_cut(shop, "s", CutTerms(), words.append)
    assert any(f"tag {cut.tag} was moved or taken away: put back" in one for one in words)
    assert verdicts(shop, cut, "orders") == changed | {"orders deduped": "as proved"}
    # The table itself.
    shop.lake.catalog.drop_table(Identifier(lake_table.name()[0], "orders").path)
    assert verdicts(shop, cut, "orders") == changed


def test_what_was_found_is_kept_and_that_a_version_could_not_be_read(
    shop: Workspace, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = make_cut(shop, "s", PROVED, said).cut
    name = next(one for one in cut.names if one.endswith(".orders"))

    def kept() -> dict[str, tuple[str, str]]:
        found = json.loads(command("proof", name, "--layers", "--json", workspace=shop).stdout)
        return {o["layer"]: (o["verdict"], o["words"]) for o in found if "cut" in o["layer"]}

    assert verdicts(shop, cut, "orders").keys() == {"orders deduped", "orders clean"}
    words = f"{cut.name}: as proved: 99 rows, all read; "
    assert kept() == {
        "cut: deduped": ("equal", f"{words}MySQL's digest of then"),
        "cut: clean": ("equal", f"{words}as then"),
    }

    def fail(*_: Any) -> Any:
        raise OSError(errno.EIO, "the disk")

    monkeypatch.setattr(recheck, "digest_again", fail)
    done = command("check", name, "--cut", cut.name, "--json", workspace=shop)
    found = json.loads(done.stdout)
    assert (done.exit_code, found["verdict"], found["tables"]) == (6, "not compared", [])
    assert {one["table"] for one in found["errors"]} == {name}
    for verdict, words in kept().values():
        assert (verdict, words.startswith(f"{cut.name}: could not be read: ")) == (
            "undecided",
            True,
        )
        assert "the disk" in words


def _flip_a_value(path: Path) -> None:
    """Another value of the first row, in a file that is as good as the one before, and as long."""
    table = pq.ParquetFile(path).read().replace_schema_metadata(None)
    at, field = table.column_names.index("id"), table.schema.field("id")
    values = table.column("id").to_pylist()
    changed = pa.array([values[0] + 1000, *values[1:]], field.type)
    size, made = path.stat().st_size, pa.BufferOutputStream()
    least: Any = {"write_statistics": False, "use_dictionary": False, "store_schema": False}
    pq.write_table(table.set_column(at, field, changed), made, compression="zstd", **least)
    text = made.getvalue().to_pybytes()
    footer = len(text) - 8 - int.from_bytes(text[-8:-4], "little")
    assert len(text) <= size
    path.write_bytes(text[:footer] + bytes(size - len(text)) + text[footer:])


def _flip_a_byte(path: Path) -> None:
    """A byte of the first column's page."""
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    found = bytearray(path.read_bytes())
    at = start + column.total_compressed_size - 1
    found[at] ^= 0xFF
    path.write_bytes(bytes(found))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


FAULTS: list[tuple[str, str, Callable[[Path], None], str]] = [
    ("orders", "deduped", _flip_a_value, "99 rows, with other values"),
    ("orders", "deduped", _flip_a_byte, ""),
    ("orders", "deduped", _cut, " bytes of "),
    ("orders", "deduped", Path.unlink, "is not there"),
    ("buyers", "deduped", _flip_a_value, "2 rows, with other values"),
    ("orders", "clean", _flip_a_value, "99 rows, with other values"),
    ("orders", "clean", _flip_a_byte, ""),
    ("orders", "clean", Path.unlink, "is not there"),
]


@pytest.mark.full
def test_what_was_not_proved_is_not_compared(
    shop: Workspace, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = make_cut(shop, "s", CutTerms(), said).cut
    done = command("check", "--cut", cut.name, "--json", workspace=shop)
    found = json.loads(done.stdout)
    assert (done.exit_code, found["verdict"]) == (10, "not compared")
    assert {o["verdict"] for o in found["tables"]} == {"not compared"}
    assert {o["proved_rows"] for o in found["tables"]} == {None}
    # One of a release that digests in another way.
    cut = make_cut(shop, "s", PROVED, said).cut
    monkeypatch.setattr(digests, "CELLS", 2)
    assert verdicts(shop, cut) == AS_PROVED | {"orders clean": "not compared"}


@pytest.mark.full
def test_a_table_that_differed_then_still_does(
    sql: Sql, shop: Workspace, command: Callable[..., Result]
) -> None:
    for one in sync_tables(shop, shop.config.tables):
        assert one.error is None
    sql("SET sql_log_bin = 0", "UPDATE orders SET amount = 5 WHERE id = 7", "SET sql_log_bin = 1")
    cut = make_cut(shop, "s", PROVED, said).cut
    assert verdicts(shop, cut) == AS_PROVED | {"orders deduped": "different"}
    assert command("check", "--cut", cut.name, workspace=shop).exit_code == 9
    assert Cuts(shop.ledger).all("s")[-1] == cut


@pytest.mark.full
def test_a_head_that_was_set_back_is_not_what_the_next_cut_has(sql: Sql, shop: Workspace) -> None:
    """Main of one table after all were shown together: the cut has what MySQL has, of all."""
    before = version(shop, make_cut(shop, "s", CutTerms(), said).cut, "orders")[1]
    sql("UPDATE orders SET amount = amount + 1", "UPDATE buyers SET name = 'z'")
    for one in sync_tables(shop, shop.config.tables):
        assert one.error is None
    orders = shop.lake.load(Identifier(_spaces(shop).deduped, "orders"))
    assert orders is not None
    orders.manage_snapshots().set_current_snapshot(snapshot_id=before).commit()
    cut = make_cut(shop, "s", PROVED, said).cut
    assert {one.proved for one in cut.tables if one.layer == "deduped"} == {"equal"}
    assert verdicts(shop, cut) == AS_PROVED


@pytest.mark.full
def test_clones_that_show_something_else_are_found_and_the_next_cut_shows_itself(
    sql: Sql, shop: Workspace, command: Callable[..., Result]
) -> None:
    """One clone was left at the cut before, one was written to."""
    path = shop.config.path
    path.write_text(path.read_text() + "\ncuts: {sources: {s: {at_cut: true}}}\n")
    shop = replace(shop, config=load_config(path))
    make_cut(shop, "s", PROVED, said)
    name = Identifier(f"{_spaces(shop).deduped}__at_cut", "orders")
    before = shop.lake.load(name)
    sql("UPDATE orders SET amount = amount + 1", "UPDATE buyers SET name = 'y'")
    cut = make_cut(shop, "s", PROVED, said).cut
    assert look_again(shop, cut).shown == ()
    newest = shop.lake.load(name)
    assert before is not None
    assert newest is not None
    shop.lake.catalog.drop_table(name.path)
    shop.lake.catalog.register_table(name.path, before.metadata_location)
    done = command("check", "--cut", cut.name, workspace=shop)
    assert (done.exit_code, f"{name} shows cut_" in done.output) == (9, True), done.output
    shop.lake.catalog.drop_table(Identifier(name.namespace, "flagged").path)
    buyers = shop.lake.load(Identifier(name.namespace, "buyers"))
    assert buyers is not None
    buyers.append(buyers.scan().to_arrow())
    assert len(look_again(shop, cut).shown) == 3
    made = make_cut(shop, "s", PROVED, said)
    assert made.not_shown is None
    assert look_again(shop, made.cut).shown == ()
    assert verdicts(shop, made.cut) == AS_PROVED
    assert look_again(shop, cut).shown == ()  # it is not shown any more


def _spaces(workspace: Workspace) -> Any:
    return workspace.config.tables[0].namespaces


def test_flagged_rows_are_not_compared(sql: Sql, engine_for: EngineFor) -> None:
    """MySQL had them no more, so its digest says nothing of them."""
    sql("CREATE TABLE flagged (id INT PRIMARY KEY)", "INSERT INTO flagged VALUES (1), (2), (3)")
    workspace = engine_for({"flagged": LOG | {"deletes": "flag"}})
    first = make_cut(workspace, "s", PROVED, said).cut
    sql("DELETE FROM flagged WHERE id = 2")
    second = make_cut(workspace, "s", PROVED, said).cut
    found = [one for cut in (first, second) for one in look_again(workspace, cut).tables]
    assert [(one.verdict, one.flagged, one.words) for one in found] == [
        ("as proved", 0, "3 rows, all read; MySQL's digest of then"),
        ("as proved", 1, "2 rows; MySQL's digest of then; 1 flagged row, not compared"),
    ]
