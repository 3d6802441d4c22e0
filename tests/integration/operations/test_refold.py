"""Deduped and clean are made again from raw, whatever of them can't be read any more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyiceberg.table import Table

from demo.oracle import check_clean, compare_table
from demo.oracle_text import read_source
from mirrorlake.cli.main import cli
from mirrorlake.config import TableContract, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.model import snapshot_property
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.destinations.iceberg.tables.integrity import find_damage, find_unreadable
from mirrorlake.destinations.iceberg.tables.views import _metadata, read_view
from mirrorlake.errors import ConfigError, LakeDamaged, LakeError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.repairing.refold import drop_beside, refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.proof.comparing.counts import count_rows
from mirrorlake.proof.comparing.evidence import prove_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, Place, lake_rows, share_session
from tests.integration.contract_files import write_contract
from tests.integration.harming import HOW, KINDS, files_of, harm

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
CREATE = """CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(40), born DATE, v DOUBLE,
    at DATETIME(6) NOT NULL, KEY (at))"""
INCREMENTAL: dict[str, Any] = {"mode": "incremental", "key": ["id"], "cursor": "at"}
MASKED = {**INCREMENTAL, "clean": "table", "columns": {"email": {"pii": "hash"}}}
LAYERS = ("deduped", "clean")


def table_of(workspace: Workspace, contract: TableContract, layer: str) -> Table:
    found = workspace.lake.load(Identifier(getattr(contract.namespaces, layer), contract.table))
    assert found is not None
    return found


def changed(sql: Sql, workspace: Workspace) -> TableContract:
    """Two loads, so that there are delete files; and a change that waits to be folded."""
    sql(
        CREATE,
        "INSERT INTO t VALUES (1, 'a@x', '2020-01-01', 1.5, '2024-01-01'),"
        " (2, NULL, '0000-00-00', -0.0, '2024-01-01'), (3, '', NULL, 0, '2024-01-01')",
    )
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("UPDATE t SET v = v + 1, at = UTC_TIMESTAMP(6) WHERE id = 3")
    sync_table(workspace, contract)
    return contract


def assert_exact(server: MariaDB, workspace: Workspace, contract: TableContract) -> None:
    """By the judge that shares no code with the engine; and nothing is left beside."""
    deduped = table_of(workspace, contract, "deduped")
    with server.admin() as admin:
        verdict = compare_table(admin, contract.database, "t", contract.key, deduped)
        assert verdict.equal, verdict.describe()
        if contract.clean == "table":
            clean = table_of(workspace, contract, "clean").scan().to_arrow()
            source = read_source(admin, contract.database, "t")
            masked = check_clean(source, contract.key, clean, contract.rules, HASH_KEY.encode())
            assert masked.equal, masked.describe()
    assert set(deduped.refs()) == {"main"}
    assert drop_beside(workspace.lake, deduped_of(contract)) == 0


def deduped_of(contract: TableContract) -> Identifier:
    return Identifier(contract.namespaces.deduped, contract.table)


def rows_of(workspace: Workspace, contract: TableContract, layer: str = "deduped") -> Counter[str]:
    rows = lake_rows(workspace, getattr(contract.namespaces, layer), contract.table)
    return Counter(repr(sorted(row.items())) for row in rows)


def refuses(workspace: Workspace, contract: TableContract, act: Callable[[], Any]) -> str:
    with pytest.raises(LakeDamaged) as caught:
        act()
    assert caught.value.exit_code == LakeError.exit_code
    assert f"`mirrorlake refold {contract.name}`" in str(caught.value)
    return str(caught.value)


# --- every file, in every way ---------------------------------------------------------------------


def _cases() -> list[Any]:
    often = {("clean", "metadata", "cut")}
    every = [(layer, kind, how) for layer in LAYERS for kind in KINDS for how in HOW]
    marks = {one: () if one in often else (pytest.mark.full,) for one in every}
    return [pytest.param(*one, id="-".join(one), marks=marks[one]) for one in every]


@pytest.mark.full
@pytest.mark.parametrize(("layer", "kind", "how"), _cases())
def test_what_cannot_be_read_is_named_and_made_again(
    sql: Sql, engine_for: EngineFor, server: MariaDB, layer: str, kind: str, how: str
) -> None:
    workspace = engine_for({"t": MASKED})
    contract = changed(sql, workspace)
    path = files_of(table_of(workspace, contract, layer))[kind]
    sql("UPDATE t SET v = 7, at = UTC_TIMESTAMP(6) WHERE id IN (1, 3)")
    harm(path, how)
    damage = find_damage(workspace.lake, Identifier(getattr(contract.namespaces, layer), "t"))
    assert damage is not None
    assert kind == "metadata" or damage.path.endswith(path.name)
    told = refuses(workspace, contract, lambda: sync_table(workspace, contract))
    assert layer in told
    refolded = refold_table(workspace, contract)
    assert [one.layer for one in refolded.layers] == list(LAYERS)
    one = refolded.layers[LAYERS.index(layer)]
    assert one.damage is not None
    assert one.way == ("table" if kind == "metadata" else "main")
    assert_exact(server, workspace, contract)
    # It goes on as ever, and so does what looks after it.
    sql("INSERT INTO t VALUES (9, 'z', NULL, 9, UTC_TIMESTAMP(6))")
    sync_table(workspace, contract)
    recover_table(workspace, contract, timedelta(0))
    assert_exact(server, workspace, contract)
    assert not path.exists()


@pytest.mark.full
def test_whoever_reads_a_damaged_table_is_told_the_way_out(sql: Sql, engine_for: EngineFor) -> None:
    """The checks, the fold and the status; without Spark, which would try for minutes."""
    workspace = engine_for({"t": INCREMENTAL})
    contract = changed(sql, workspace)
    data = files_of(table_of(workspace, contract, "deduped"))["data"]
    kept = data.read_bytes()
    harm(data, "cut")
    told = refuses(workspace, contract, lambda: prove_table(workspace, contract, Ask()))
    assert f"{data.name} has {len(kept) // 2:,} bytes of {len(kept):,}" in told
    refuses(workspace, contract, lambda: count_rows(workspace, contract))
    data.write_bytes(kept)
    harm(files_of(table_of(workspace, contract, "deduped"))["metadata"], "zeros")
    for act in (
        lambda: prove_table(workspace, contract, Ask()),
        lambda: count_rows(workspace, contract),
        lambda: fold_table(workspace, contract),
    ):
        assert "is cut, or is no metadata" in refuses(workspace, contract, act)
    # A version that was not counted yet: its sync counted this one while it was whole.
    assert status_of(workspace.config, workspace.ledger, [contract])[0].rows is not None
    workspace.ledger.record_counts({contract.name: ("another", 0)})
    status = status_of(workspace.config, workspace.ledger, [contract])[0]
    assert status.rows is None
    assert f"`mirrorlake refold {contract.name}`" in status.checks


@pytest.mark.full
def test_raw_that_cannot_be_read_is_no_reason_to_drop_anything(
    sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    workspace = engine_for({"t": INCREMENTAL})
    contract = changed(sql, workspace)
    (version,) = workspace.ledger.schema_versions(contract.name)
    raw = workspace.lake.load(Identifier(contract.namespaces.raw, version.raw_table))
    assert raw is not None
    path = files_of(raw)["data"]
    kept, before = path.read_bytes(), table_of(workspace, contract, "deduped").metadata_location
    harm(path, "cut")
    with pytest.raises(LakeDamaged, match=r"its raw table .* Nothing else has its rows"):
        refold_table(workspace, contract)
    after = table_of(workspace, contract, "deduped")
    assert find_damage(workspace.lake, deduped_of(contract)) is None
    assert after.metadata_location == before  # it was found before anything was written
    # Neither where the layer itself can't be read.
    harm(local_path(after.metadata_location) or Path(), "cut")
    with pytest.raises(LakeDamaged, match=r"its raw table .* Nothing else has its rows"):
        refold_table(workspace, contract)
    with pytest.raises(LakeDamaged):
        workspace.lake.load(deduped_of(contract))
    path.write_bytes(kept)
    refold_table(workspace, contract)
    assert before != table_of(workspace, contract, "deduped").metadata_location
    assert_exact(server, workspace, contract)


def test_readers_have_an_answer_at_every_moment(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one until main is moved, then the new one; and a load id in both layers."""
    workspace = engine_for({"t": MASKED})
    contract = changed(sql, workspace)
    before = {layer: rows_of(workspace, contract, layer) for layer in LAYERS}
    heads = {layer: table_of(workspace, contract, layer).current_snapshot() for layer in LAYERS}
    seen: list[tuple[str, str]] = []

    def look(point: str) -> None:
        for layer in LAYERS:
            assert rows_of(workspace, contract, layer) == before[layer]
            moved = table_of(workspace, contract, layer).current_snapshot() != heads[layer]
            seen.append((point, f"{layer} {'new' if moved else 'old'}"))

    monkeypatch.setattr("mirrorlake.merge.fold.failpoint", look)
    monkeypatch.setattr("mirrorlake.merge.overwrite.failpoint", look)
    done = refold_table(workspace, contract)
    points = ("begun", "written", "shown")
    states = {"begun": "old", "written": "old", "shown": "new"}
    assert seen == [
        *((f"refold.{p}", one) for p in points for one in (f"deduped {states[p]}", "clean old")),
        *((f"refold.{p}", one) for p in points for one in ("deduped new", f"clean {states[p]}")),
    ]
    for one in done.layers:
        head = table_of(workspace, contract, one.layer).current_snapshot()
        assert head is not None
        assert (head.snapshot_id, one.rows, one.damage) == (one.snapshot_id, 3, None)
        assert snapshot_property(head, LOAD_ID) == done.load_id
        # What it showed before is there for whoever reads it still.
        old = heads[one.layer]
        assert old is not None
        table = table_of(workspace, contract, one.layer)
        assert table.scan(snapshot_id=old.snapshot_id).to_arrow().num_rows == 3


@pytest.mark.full
def test_what_a_power_cut_left_of_a_dead_refold_is_in_nobodys_way(
    sql: Sql, engine_for: EngineFor, server: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its branch's files were not flushed: neither a fold nor the next refold reads them."""
    workspace = engine_for({"t": INCREMENTAL})
    contract = changed(sql, workspace)

    def die(point: str) -> None:
        if point == "refold.written":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mirrorlake.merge.fold.failpoint", die)
        patched.setattr("mirrorlake.merge.overwrite.failpoint", die)
        with pytest.raises(KeyboardInterrupt):
            refold_table(workspace, contract)
    table = table_of(workspace, contract, "deduped")
    (left,) = [s for s in table.snapshots() if snapshot_property(s, LOAD_ID)]
    assert left.snapshot_id in {ref.snapshot_id for ref in table.refs().values()}
    harm(local_path(left.manifest_list) or Path(), "empty")
    sql("UPDATE t SET v = 8, at = UTC_TIMESTAMP(6) WHERE id = 1")
    sync_table(workspace, contract)
    assert find_unreadable(table_of(workspace, contract, "deduped")) == [left.snapshot_id]
    refold_table(workspace, contract)
    assert find_unreadable(table_of(workspace, contract, "deduped")) == []
    assert_exact(server, workspace, contract)


# --- every kind of table --------------------------------------------------------------------------

ENTITY = {
    "mode": "append",
    "key": ["id"],
    "cursor": "id",
    "created": "born",
    "entity": {"token": "email", "created": "born"},
}
KEYLESS = {"mode": "append", "cursor": "at", "overlap": "0s"}
FLAGGED = {**INCREMENTAL, "settle": "1s", "deletes": "flag"}
ALL = "INSERT INTO t VALUES (4, 'a@x', '2019-05-05', 4, UTC_TIMESTAMP(6))"


@pytest.mark.parametrize("kind", ["data", "manifest", "metadata"])
@pytest.mark.parametrize(
    "contract",
    [
        pytest.param({"mode": "full", "key": ["id"]}, id="full"),
        pytest.param({"mode": "full"}, id="full-keyless"),
        pytest.param(KEYLESS, id="append-keyless"),
        pytest.param(ENTITY, id="entity"),
        pytest.param(FLAGGED, id="flagged"),
        pytest.param({**FLAGGED, "deletes": "remove"}, id="tombstones"),
        pytest.param({**FLAGGED, "deletes": "ignore"}, id="ignored"),
        pytest.param({**MASKED, "deletes": "flag", "settle": "1s"}, id="flagged-clean-table"),
    ],
)
@pytest.mark.full
def test_every_kind_of_table(
    sql: Sql, engine_for: EngineFor, server: MariaDB, kind: str, contract: dict[str, Any]
) -> None:
    token = "NOT NULL, KEY (email)" if "entity" in contract else ""
    sql(
        CREATE.replace("email VARCHAR(40)", f"email VARCHAR(40) {token}"),
        "INSERT INTO t VALUES (1, 'a@x', '2020-01-01', 1.5, '2024-01-01'),"
        " (2, 'b', '0000-00-00', -0.0, '2024-01-01'), (3, '', '2020-01-03', 0, '2024-01-02')",
    )
    workspace = engine_for({"t": contract})
    found = workspace.config.table("t")
    sync_table(workspace, found)
    sql("DELETE FROM t WHERE id = 2" if "deletes" in contract else "DO 0")
    if "deletes" in contract:
        repair_table(workspace, found, Ask(), only_deletes=True)
    sql(ALL)
    sync_table(workspace, found)
    layers = LAYERS if found.clean == "table" else ("deduped",)
    before = {layer: rows_of(workspace, found, layer) for layer in layers}
    for layer in layers:
        harm(files_of(table_of(workspace, found, layer))[kind], "cut")
    refold_table(workspace, found)
    assert {layer: rows_of(workspace, found, layer) for layer in layers} == before
    if contract.get("deletes", "remove") == "remove" and "entity" not in contract:
        assert_exact(server, workspace, found)
    if "entity" in contract:
        first = {row["id"]: row["original_created_at"] for row in rows_in(workspace, found)}
        assert first == {1: date(2019, 5, 5), 4: date(2019, 5, 5), 2: None, 3: date(2020, 1, 3)}
        assert not table_of(workspace, found, "deduped").spec().is_unpartitioned()
    # What comes next finds the layer as if nothing had been.
    sql("INSERT INTO t VALUES (5, 'n', '2021-01-01', 5, UTC_TIMESTAMP(6))")
    sync_table(workspace, found)
    assert len(rows_in(workspace, found)) == before["deduped"].total() + 1


def rows_in(workspace: Workspace, contract: TableContract) -> list[dict[str, Any]]:
    return lake_rows(workspace, contract.namespaces.deduped, contract.table)


def test_what_marks_a_dead_refolds_table_goes_with_its_files(
    sql: Sql, engine_for: EngineFor
) -> None:
    """By one recovery: the mark is written by that very one."""
    workspace = engine_for({"t": MASKED})
    contract = changed(sql, workspace)
    deduped = table_of(workspace, contract, "deduped")
    name = (contract.namespaces.deduped, f"t__refold_{'0' * 32}")
    beside = workspace.lake.catalog.create_table(name, deduped.schema(), deduped.location())
    beside.append(deduped.scan().to_arrow())
    files = {task.file.file_path for task in beside.refresh().scan().plan_files()}
    assert recover_table(workspace, contract, timedelta(0)).orphans > len(files)
    folder = local_path(f"{deduped.location()}/metadata")
    assert folder is not None
    assert list(folder.glob("*.retired")) == []
    assert not any(path.is_file() for path in map(local_path, files) if path is not None)


def test_what_has_nothing_to_be_made_of_is_refused(sql: Sql, engine_for: EngineFor) -> None:
    sql(CREATE)
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    with pytest.raises(ConfigError, match=r"no load of it succeeded.* Sync it first"):
        refold_table(workspace, contract)
    # An empty table was loaded, and is one afterwards.
    sync_table(workspace, contract)
    harm(files_of(table_of(workspace, contract, "deduped"))["metadata"], "empty")
    refold_table(workspace, contract)
    assert rows_in(workspace, contract) == []


# --- views, the command, and what is left behind --------------------------------------------------


@pytest.mark.full
def test_views_that_cannot_be_read_are_made_again(
    sql: Sql, engine_for: EngineFor, place: Place
) -> None:
    workspace = engine_for({"t": {**INCREMENTAL, "columns": {"email": {"pii": "drop"}}}})
    contract = changed(sql, workspace)
    clean = Identifier(contract.namespaces.clean, "t")
    raw = Identifier(contract.namespaces.raw, "t")
    for view, how in ((clean, "cut"), (raw, "missing")):
        said = read_view(workspace.lake, view)
        assert said is not None
        harm(view_file(workspace, view), how)
        with pytest.raises(LakeDamaged):
            read_view(workspace.lake, view)
        refolded = refold_table(workspace, contract)
        assert read_view(workspace.lake, view) == said
        assert (refolded.layers[1].damage is not None) == (view == clean)
    rows = place.spark.get().sql(f"SELECT * FROM {clean.sql}").collect()
    assert {tuple(sorted(row.asDict())) for row in rows} == {
        ("_mirror_original", "at", "born", "id", "v")
    }


def view_file(workspace: Workspace, identifier: Identifier) -> Path:
    folder = Path(workspace.lake.location(identifier).removeprefix("file://")) / "metadata"
    named = [p for p in folder.glob("*.metadata.json") if not p.name.startswith(".")]
    assert _metadata(workspace.lake, identifier) is not None
    return max(named, key=lambda path: path.name)


@pytest.mark.full
def test_the_command(
    sql: Sql,
    server: MariaDB,
    place: Place,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It finds what is damaged, leaves the rest alone, and goes on past what it can't do."""
    share_session(place, monkeypatch)
    config = write_contract(
        place.folder / f"{database}.yaml",
        server.port,
        {database: {"tables": {"t": INCREMENTAL, "u": INCREMENTAL}}},
        ledger={"url": "sqlite:///ledger.db", "wait": "1s"},
    )

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(cli, ["refold", *arguments, "--config", str(config)])

    sql(CREATE.replace("TABLE t", "TABLE u"))
    with Workspace.open(load_config(config)) as workspace:
        contract, other = changed(sql, workspace), workspace.config.table("u")
        sync_table(workspace, other)
        assert isinstance(run().exception, ConfigError)
        assert "Nothing to do" in run("--damaged").output
        harm(files_of(table_of(workspace, contract, "deduped"))["data"], "missing")
        head = workspace.lake.load(Identifier(other.namespaces.deduped, "u"))
        done = json.loads(run("--damaged", "--json").stdout)
        (one,) = done["tables"]
        assert (one["table"], one["loads"], done["errors"]) == (contract.name, 2, [])
        assert [layer["way"] for layer in one["layers"]] == ["main", "view"]
        assert "is not there" in one["layers"][0]["damage"]
        assert workspace.lake.load(Identifier(other.namespaces.deduped, "u")) == head
        assert_exact(server, workspace, contract)
        with workspace.ledger.lease(contract.name, "another run"):
            held = run("t", "u", "--json")
        assert held.exit_code == 7
        told = json.loads(held.stdout)
        assert [e["code"] for e in told["errors"]] == [7]
        assert [t["table"] for t in told["tables"]] == [other.name]
        assert "deduped" in run("t").output
        # Maintenance reads every version there is, and finds none that it can't.
        done = maintain_table(workspace, contract, Ages(timedelta(0), timedelta(0)))
        assert [one.error for one in done] == [None, None]
