"""Reads that break off: the connection goes in the middle of a row, the disk is full, rows come
meanwhile. What is mirrored is exact, or nothing was written."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SourceError
from mirrorlake.load.chunks import planner as chunk_planner
from mirrorlake.load.chunks import runner
from mirrorlake.load.chunks import statements as chunk_statements
from mirrorlake.load.protocol import protocol, table_held
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, lake_rows
from tests.integration.contract_files import write_contract
from tests.integration.cutting import CuttingProxy
from tests.integration.load.test_giving_way import assert_exact
from tests.integration.sources.mysql.test_limits import FULL, make_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
BY_KEY = {"mode": "append", "key": ["id"], "cursor": "id"}
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.05)


def files_of(place: Place, load_id: str) -> list[Path]:
    return [path for path in (place.folder / "lake").rglob(f"{load_id}-*") if path.is_file()]


def test_a_connection_that_is_cut_in_a_row_costs_its_chunk_alone(
    server: EmbeddedServer,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_rows(sql, 8_000, width=300)
    sql("ANALYZE TABLE t")
    monkeypatch.setattr(protocol, "ROWS_PER_CHUNK", 2_000)
    with CuttingProxy(server.port, 300_000, 2) as proxy:
        workspace = engine_for({"t": BY_KEY}, {"port": proxy.port})
        contract = workspace.config.table("t")
        result = load_table(workspace, contract)
    assert proxy.cut == 2
    chunks = proxy.large - proxy.cut
    assert 3 <= chunks <= 6  # each read once, and the two again
    assert result.rows == 8_000
    raw = workspace.ledger.schema_versions(contract.name)[-1].raw_table
    rows = lake_rows(workspace, contract.namespaces.raw, raw)
    assert sorted(row["id"] for row in rows) == list(range(1, 8_001))
    assert [load.state for load in workspace.ledger.loads(contract.name)] == ["success"]


@pytest.mark.parametrize(
    "asking", [(table_held, "read_table"), (protocol, "basis_of"), (chunk_planner, "_estimate")]
)
def test_a_connection_that_is_lost_before_a_question(
    asking: tuple[Any, str],
    server: EmbeddedServer,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is being asked then, it is told as our error, and the next run is exact."""
    make_rows(sql, 3_000)
    sql("ANALYZE TABLE t")
    monkeypatch.setattr(protocol, "ROWS_PER_CHUNK", 500)
    module, name = asking
    ask, lost = getattr(module, name), []

    def ask_when_it_is_gone(connection: Any, *rest: Any) -> Any:
        lost.append(connection.thread_id())
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"KILL {lost[-1]}")
        return ask(connection, *rest)

    workspace = engine_for({"t": BY_KEY})
    contract = workspace.config.table("t")
    with monkeypatch.context() as gone:
        gone.setattr(module, name, ask_when_it_is_gone)
        with pytest.raises(SourceError) as told:
            load_table(workspace, contract)
    assert lost, "it was never asked"
    assert told.value.retryable
    assert load_table(workspace, contract).rows == 3_000


@pytest.mark.full
@pytest.mark.parametrize("way", ["straight", "rate", "near"])
def test_a_connection_that_is_always_cut(
    server: EmbeddedServer,
    place: Place,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    source = {"rows_per_second": 100_000} if way == "rate" else {}
    if way == "near":
        monkeypatch.setattr(chunk_planner, "_MANY_ROWS", 0)
        monkeypatch.setattr(chunk_statements, "PILED_BYTES", 0)
    make_rows(sql, 4_000, width=300)
    with CuttingProxy(server.port, 300_000, None) as proxy:
        workspace = engine_for({"t": FULL}, {"port": proxy.port, **source})
        contract = workspace.config.table("t")
        with pytest.raises(SourceError, match="reading database") as caught:
            load_table(workspace, contract)
        assert proxy.cut == runner.ATTEMPTS
    assert caught.value.retryable
    assert "sync again" in caught.value.next_step
    failed = workspace.ledger.last_load(contract.name)
    assert failed is not None
    assert (failed.state, failed.snapshot_id) == ("errored", None)
    assert files_of(place, failed.load_id) == []
    raw = workspace.lake.load(Identifier(contract.namespaces.raw, failed.raw_table))
    assert raw is not None
    assert raw.snapshots() == []


def test_a_read_that_somebody_kills_is_read_again(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    make_rows(sql, 1_000, width=10_000)
    workspace = engine_for({"t": FULL}, {"rows_per_second": 600})
    contract = workspace.config.table("t")
    killed: list[int] = []

    def kill() -> None:
        with server.admin() as admin, admin.cursor() as cursor:
            for _ in range(100):
                cursor.execute(
                    "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() "
                    f"AND INFO LIKE '%mirrorlake load%' AND DB = '{database}'"
                )
                if found := cursor.fetchone():
                    killed.append(found[0])
                    cursor.execute(f"KILL {found[0]}")
                    return
                time.sleep(0.03)

    thread = threading.Thread(target=kill)
    thread.start()
    assert load_table(workspace, contract).rows == 1_000
    thread.join()
    assert killed
    assert [load.state for load in workspace.ledger.loads(contract.name)] == ["success"]


RUNNER = """
import json, resource, sys
from mirrorlake.config import load_config
from mirrorlake.errors import MirrorlakeError
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.workspace import Workspace
workspace = Workspace.open(load_config(__import__("pathlib").Path(sys.argv[1])))
contract = workspace.config.tables[0]
if len(sys.argv) > 2:
    # A real refusal of the kernel's, as of a full disk, for every file that grows so far.
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    print(json.dumps({"rows": load_table(workspace, contract).rows}))
except MirrorlakeError as error:
    told = {"kind": type(error).__name__, "text": str(error), "code": error.exit_code}
    told["state"] = workspace.ledger.last_load(contract.name).state
    told["state"] = workspace.ledger.last_load(contract.name).state
    print(json.dumps(told))
"""


@pytest.mark.full
def test_a_data_file_that_finds_no_room(
    server: EmbeddedServer, database: str, place: Place, sql: Sql, tmp_path: Path
) -> None:
    """The files go, raw stays as it was, the load is errored, and the next one is exact."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v BLOB NOT NULL)",
        "INSERT INTO t SELECT seq, RANDOM_BYTES(1000) FROM seq_1_to_4000",
    )
    config = write_contract(
        tmp_path / "mirrorlake.yaml", server.port, {database: {"tables": {"t": FULL}}}
    )

    def load(*limit: str) -> dict[str, Any]:
        command = [sys.executable, "-c", RUNNER, str(config), *limit]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return json.loads(ran.stdout)

    told = load("2000000")
    assert (told["kind"], told["code"]) == ("LakeError", 6)
    assert f"a data file of {database}.t could not be written: " in told["text"]
    assert "File too large" in told["text"]
    assert told["state"] == "errored"
    assert "See that the warehouse has room" in told["text"]
    assert list((tmp_path / "lake").rglob("*.parquet")) == []
    assert load() == {"rows": 4_000}
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 1


@pytest.mark.full
def test_a_table_that_grows_while_it_is_read(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that are written and changed during the read are there once after the next sync, with
    no overlap to help."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, modified_at DATETIME(6) NOT NULL "
        "DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))",
        "INSERT INTO t (id, n) SELECT seq * 10, 0 FROM seq_1_to_1500",
        "ANALYZE TABLE t",
    )
    monkeypatch.setattr(protocol, "ROWS_PER_CHUNK", 500)
    contract = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "0s"}
    workspace = engine_for({"t": contract}, {"rows_per_second": 1_000})
    found = workspace.config.table("t")
    ended = threading.Event()

    def write() -> None:
        with server.admin(database) as admin, admin.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            number = 0
            while not ended.wait(0.01):
                number += 1
                place = (number * 7_919) % 15_000
                cursor.execute("INSERT IGNORE INTO t (id, n) VALUES (%s, 1)", (place + 5,))
                cursor.execute("UPDATE t SET n = n + 1 WHERE id = %s", (place // 10 * 10 + 10,))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        load_table(workspace, found)
    finally:
        ended.set()
        writer.join()
    sync_table(workspace, found)
    assert_exact(workspace, server, found)
