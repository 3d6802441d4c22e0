"""Rows that come with the server's hash of each: whatever happens to them on their way, into the
file and in it, is seen before anybody reads the load; in a live window as in a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.faults import KEYED, create_sql
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LakeError, MirrorlakeError, NotProved
from mirrorlake.load.chunks import select_rows
from mirrorlake.load.chunks.chunk_task import ChunkTally
from mirrorlake.load.chunks.file_proof import FileProofs
from mirrorlake.load.chunks.statements import HASH
from mirrorlake.load.protocol import verify
from mirrorlake.load.row_hashes.row_index import DeltaGivenUp
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows
from tests.support.word_proxy import OtherProcess

TABLES = {
    "copies": {"mode": "full", "key": ["id"], "verify": True},
    "windows": {"mode": "append", "key": ["id"], "cursor": "id", "verify": True},
}
ROWS = "(1, 'a', 'A'), (2, 'b', 'B'), (3, NULL, '')"
LATER = "(4, 'needle', 'D'), (5, 'e', 'E'), (6, 'f', 'F'), (7, 'g', 'G')"


@pytest.fixture
def workspace(engine_for: Callable[..., Workspace], sql: Callable[..., Any]) -> Workspace:
    for table in TABLES:
        sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(20), u VARCHAR(20) NOT NULL)")
        sql(f"INSERT INTO {table} VALUES {ROWS}")
    made = engine_for(TABLES)
    for table in TABLES:
        sync_table(made, made.config.table(table))
        sql(f"INSERT INTO {table} VALUES {LATER}")
    return made


def raw(workspace: Workspace, table: str) -> Identifier:
    contract = workspace.config.table(table)
    with session(workspace.config.sources["s"], contract.database) as connection:
        return resolve_table(workspace, contract, connection).raw


def moved(rows: pa.Table, name: str, by: Callable[[list[Any]], list[Any]]) -> pa.Table:
    """The rows with other values in a column."""
    number = rows.schema.get_field_index(name)
    values = pa.array(by(rows[name].to_pylist()), rows[name].type)
    return rows.set_column(number, rows.field(number), values)


def swapped(rows: pa.Table) -> pa.Table:
    """Columns in another order: every v stands in u."""
    v, u = rows["v"].combine_chunks().fill_null(""), rows["u"].combine_chunks()
    return moved(moved(rows, "v", lambda _: u.to_pylist()), "u", lambda _: v.to_pylist())


Plant = Callable[[pa.Table], pa.Table]
ON_THE_WAY: dict[str, Plant] = {
    # As the reader gives rows: each with the server's hash of it.
    "lost": lambda rows: rows.slice(1),
    "doubled": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    "one lost, another doubled": lambda rows: pa.concat_tables([rows.slice(1), rows.slice(1, 1)]),
    "value": lambda rows: moved(rows, "c1", lambda found: ["x", *found[1:]]),
    "key": lambda rows: moved(rows, "c0", lambda found: [99, *found[1:]]),
    "hash": lambda rows: moved(rows, HASH, lambda found: ["0" * 16, *found[1:]]),
    "no hash": lambda rows: moved(rows, HASH, lambda found: [None, *found[1:]]),
    "no hexadecimal": lambda rows: moved(rows, HASH, lambda found: ["g" * 16, *found[1:]]),
    "neighbour's hash": lambda rows: moved(rows, HASH, lambda found: [*found[1:], found[-1]]),
}
AFTERWARDS: dict[str, Plant] = {
    # As they are written.
    "a bit": lambda rows: moved(rows, "u", lambda found: [chr(ord(found[0][0]) ^ 1), *found[1:]]),
    "wrong order of columns": swapped,
    "NULL": lambda rows: moved(rows, "v", lambda found: [None for _ in found]),
}


def gathering(plant: Plant) -> Callable[[Any], Any]:
    honest = select_rows.gathered
    return lambda batches: (plant(rows) if rows.num_rows else rows for rows in honest(batches))


def making_exact(plant: Plant) -> Callable[..., pa.Table]:
    honest = select_rows.exact_rows
    return lambda *told: plant(honest(*told))


def assert_nothing_is_shown(workspace: Workspace, table: str, kind: type[Exception]) -> Any:
    """A load fails, and raw and ledger are as they were."""
    contract, name = workspace.config.table(table), raw(workspace, table)
    before = lake_rows(workspace, name.namespace, name.name)
    with pytest.raises(kind) as caught:
        load_table(workspace, contract)
    assert lake_rows(workspace, name.namespace, name.name) == before
    failed = workspace.ledger.last_load(contract.name)
    assert failed is not None
    assert failed.state == "errored"
    return caught.value


@pytest.mark.full
@pytest.mark.parametrize("table", ["windows", "copies"])
def test_whatever_befalls_rows_on_their_way_is_seen(
    workspace: Workspace, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault, plant in ON_THE_WAY.items():
        with monkeypatch.context() as patch:
            patch.setattr(select_rows, "gathered", gathering(plant))
            error = assert_nothing_is_shown(workspace, table, NotProved)
        assert error.branch in str(error), fault
    for plant in AFTERWARDS.values():
        with monkeypatch.context() as patch:
            patch.setattr(select_rows, "exact_rows", making_exact(plant))
            assert_nothing_is_shown(workspace, table, NotProved)
    sync_table(workspace, workspace.config.table(table))
    contract = workspace.config.table(table)
    assert len(lake_rows(workspace, contract.namespaces.deduped, table)) == 7


def cut(path: str, by: int) -> None:
    file = Path(path.removeprefix("file://"))
    file.write_bytes(file.read_bytes()[:-by])


def flip(path: str) -> None:
    """Another byte in the middle of the file's first column."""
    file = Path(path.removeprefix("file://"))
    found = bytearray(file.read_bytes())
    place = found.index(b"needle") if b"needle" in found else 40
    found[place] ^= 1
    file.write_bytes(bytes(found))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: cut(path, 1), marks=pytest.mark.full),
        pytest.param(lambda path: cut(path, 400), marks=pytest.mark.full),
        flip,
    ],
)
def test_a_file_that_is_damaged_before_it_is_read_again(
    workspace: Workspace, damage: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = FileProofs._compare

    def after(self: FileProofs, file: Any, *part: int) -> Any:
        damage(file.path)
        return honest(self, file, *part)

    with monkeypatch.context() as patch:
        patch.setattr(FileProofs, "_compare", after)
        assert_nothing_is_shown(workspace, "windows", MirrorlakeError)
    contract = workspace.config.table("windows")
    sync_table(workspace, contract)
    assert len(lake_rows(workspace, contract.namespaces.deduped, "windows")) == 7


def test_a_file_that_is_cut_between_its_proof_and_the_commit(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = verify.stage_load

    def after(lake: Any, commit: Any) -> Any:
        cut(commit.paths[0], 10)
        return honest(lake, commit)

    monkeypatch.setattr(verify, "stage_load", after)
    assert_nothing_is_shown(workspace, "windows", LakeError)


def test_a_commit_that_leaves_a_file_out_is_not_shown(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = verify.stage_load
    monkeypatch.setattr(
        verify, "stage_load", lambda lake, commit: honest(lake, replace(commit, paths=[]))
    )
    # What is left out once is not left out of the commit to the branch, which is proved as well.
    sync_table(workspace, workspace.config.table("copies"))
    contract = workspace.config.table("copies")
    assert len(lake_rows(workspace, contract.namespaces.deduped, "copies")) == 7


def test_a_byte_that_changes_between_the_server_and_us_is_seen_in_a_live_window(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
) -> None:
    sql("CREATE TABLE windows (id INT PRIMARY KEY, v VARCHAR(20))")
    sql("INSERT INTO windows VALUES (1, 'a')")
    with OtherProcess(server.port, b"needle", "change") as proxy:
        workspace = engine_for({"windows": TABLES["windows"]}, {"port": proxy.port})
        sync_table(workspace, workspace.config.table("windows"))
        sql("INSERT INTO windows VALUES (2, 'needle'), (3, 'b')")
        proxy.arm()
        assert_nothing_is_shown(workspace, "windows", NotProved)
        assert proxy.met.is_set()


def refuse_spark(*_: Any) -> None:
    raise AssertionError("a load that is equal was looked at by Spark")


def newest_is_proved(workspace: Workspace, table: str) -> bool:
    newest = workspace.ledger.successful_loads(workspace.config.table(table).name)[-1]
    return newest.receipt is not None and newest.receipt.all_proved


def test_every_type_comes_with_its_hash(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(*create_sql(KEYED), f"ALTER TABLE {KEYED} DROP COLUMN c_long_decimal")
    live = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "verify": True}
    workspace = engine_for({KEYED: live})
    monkeypatch.setattr(verify, "prove_loaded", refuse_spark)
    monkeypatch.setattr(verify, "equals_locally", refuse_spark)
    load_table(workspace, workspace.config.table(KEYED))
    sql(f"UPDATE {KEYED} SET c_int = 5, modified_at = UTC_TIMESTAMP() WHERE id IN (3, 60)")
    load_table(workspace, workspace.config.table(KEYED))
    assert newest_is_proved(workspace, KEYED)


def test_what_is_proved_says_so_and_needs_no_spark(
    workspace: Workspace, sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "prove_loaded", refuse_spark)
    contract = workspace.config.table("windows")
    for _ in range(2):  # the second window finds nothing new
        load_table(workspace, contract)
        assert newest_is_proved(workspace, "windows")
        assert workspace.ledger.successful_loads(contract.name)[-1].window.kind == "live"
    sql("INSERT INTO windows VALUES (8, 'h', 'H')")
    load_table(workspace, contract.model_copy(update={"verify": False}))
    sql("INSERT INTO windows VALUES (9, 'i', 'I')")
    load_table(workspace, contract)
    newest = workspace.ledger.successful_loads(contract.name)[-1].receipt
    assert newest is not None
    assert newest.source_digest is not None
    assert not newest.all_proved  # one before it was not
    table = workspace.lake.load(raw(workspace, "windows"))
    assert table is not None
    names = [field.name for field in table.schema().fields]
    for task in table.scan().plan_files():
        with table.io.new_input(task.file.file_path).open() as stream:
            assert pq.ParquetFile(stream).schema_arrow.names == names


@pytest.mark.full
def test_a_column_that_is_called_as_ours_once_was(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql("CREATE TABLE odd (h INT PRIMARY KEY, c0 VARCHAR(5), hash INT, w INT)")
    sql("INSERT INTO odd VALUES (1, 'a', 2, 3), (2, 'b', NULL, 4)")
    workspace = engine_for({"odd": {"mode": "full", "key": ["h"], "verify": True}})
    load_table(workspace, workspace.config.table("odd"))
    assert newest_is_proved(workspace, "odd")


def test_a_read_that_is_given_up_leaves_no_session(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is read instead has the only session that the source may allow."""
    sql(
        "CREATE TABLE many (id INT PRIMARY KEY, v CHAR(200) NOT NULL)",
        "INSERT INTO many SELECT seq, REPEAT('x', 200) FROM seq_1_to_200000",
    )
    workspace = engine_for({"many": {"mode": "full", "key": ["id"], "verify": True}})
    contract = workspace.config.table("many")
    honest, given_up, sessions = ChunkTally.add, list[int](), list[int]()

    def count() -> int:
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE db = %s",
                [contract.database],
            )
            ((found,),) = cursor.fetchall()
        return int(found)

    def add(self: ChunkTally, rows: pa.Table) -> None:
        (sessions if given_up else given_up).append(count())
        if not sessions:
            raise DeltaGivenUp("planted")
        honest(self, rows)

    monkeypatch.setattr(ChunkTally, "add", add)
    load_table(workspace, contract)
    assert max(sessions) == given_up[0]


def test_rows_of_a_load_that_was_not_proved_are_not_forgotten(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    """A new first load of the same history is added to what is shown: status must not call it all
    proved."""
    sql("CREATE TABLE live (id INT PRIMARY KEY, v VARCHAR(5), m DATETIME NOT NULL, KEY (m))")
    sql("INSERT INTO live VALUES (1, 'a', '2024-02-28 01:00')")
    live = {"mode": "incremental", "key": ["id"], "cursor": "m", "verify": True}
    workspace = engine_for({"live": live})
    load_table(workspace, workspace.config.table("live").model_copy(update={"verify": False}))
    sql("ALTER TABLE live ADD COLUMN w INT")
    load_table(workspace, workspace.config.table("live"))
    newest = workspace.ledger.successful_loads(workspace.config.table("live").name)[-1]
    assert newest.window.kind == "initial"
    assert not newest_is_proved(workspace, "live")
