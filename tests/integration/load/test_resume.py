"""A load of many chunks is killed in the middle; the next run reads the rest, and is exact.

Windows don't overlap here: a row that changed between a chunk's reading and the end of its load
comes with the next window, or never.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from demo.oracle import compare_table
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LeaseHeld, SchemaError
from mirrorlake.ledger import Receipt
from mirrorlake.load.protocol import protocol
from mirrorlake.load.raw.raw_files import list_files
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.loading.unchanged import look_at
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.changes.change_stamps import BLUR
from mirrorlake.table.progress import OnProgress, Progress
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.soak.runs import Order, Runner

ROOT = Path(__file__).parents[3]
ROWS, CHUNK = 6_000, 750
NO_OVERLAP = {"overlap": "0s", "overlap_keys": 0}
CONTRACTS: dict[str, dict[str, Any]] = {
    "incremental": {"mode": "incremental", "key": ["id"], "cursor": "modified_at", **NO_OVERLAP},
    "append": {"mode": "append", "key": ["id"], "cursor": "id", **NO_OVERLAP},
    "full": {"mode": "full", "key": ["id"]},
}
Fork = Callable[..., int]


@pytest.fixture(scope="module")
def fork(runner: Runner) -> Fork:
    """Run a load in a process that a failpoint kills; its exit code."""

    def order(config: Path, failpoint: str, reload: str = "") -> int:
        days = (reload, reload) if reload else ()
        act = "reload" if reload else "sync"
        asked = Order(config, "big", act, days, failpoint, spark=False, rows_per_chunk=CHUNK)
        code = runner.run(asked).code
        assert code is not None
        return code

    return order


@dataclass
class World:
    """A table of many chunks, its mirror, and the ways to kill, change and look."""

    server: EmbeddedServer
    place: Place
    database: str
    sql: Callable[..., Any]
    fork: Fork
    config: Path

    def contract(self, mode: str, **more: Any) -> None:
        write_contract(
            self.config,
            self.server.port,
            {self.database: {"tables": {"big": {**CONTRACTS[mode], **more}}}},
            ledger={"url": f"sqlite:///{self.database}.db", "wait": "1s"},
        )

    def workspace(self) -> Workspace:
        return Workspace.open(load_config(self.config), spark=self.place.spark)

    def load(self, progress: OnProgress | None = None) -> SyncResult:
        workspace = self.workspace()
        return load_table(workspace, workspace.config.table("big"), progress)

    def kill(self, failpoint: str, reload: str = "") -> None:
        assert self.fork(self.config, failpoint, reload) == -signal.SIGKILL

    def ask(self, query: str, **values: Any) -> list[Any]:
        """The ledger's rows, past the engine."""
        workspace = sa.create_engine(f"sqlite:///{self.place.folder / self.database}.db")
        with workspace.begin() as ledger:
            found = ledger.execute(sa.text(query), values)
            return [tuple(row) for row in found] if found.returns_rows else []

    def sent(self) -> int:
        """Rows that the server has sent since it started."""
        with self.server.admin() as admin, admin.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Rows_sent'")
            return int(cursor.fetchone()[1])  # type: ignore[index]

    def raw(self) -> Any:
        workspace = self.workspace()
        spaces = workspace.config.table("big").namespaces
        (name,) = self.ask("SELECT raw_table FROM loads ORDER BY seq DESC LIMIT 1")[0]
        table = workspace.lake.load(Identifier(spaces.raw, name))
        assert table is not None
        return table

    def files(self) -> set[Path]:
        """The data files that are there, whoever names them."""
        data = Path(self.raw().location().removeprefix("file://")) / "data"
        return set(data.rglob("*.parquet"))

    def readings(self) -> Counter[int]:
        """How many chunks of the committed load each attempt read, by their files' names."""
        paths = [task.file.file_path for task in self.raw().scan().plan_files()]
        names = {path.rsplit("/", 1)[-1].removesuffix(".parquet") for path in paths}
        chunks = {tuple(name.split("-")[1:3]) for name in names}
        return Counter(int(attempt) for attempt, _ in chunks)

    def mirrored(self) -> dict[int, int]:
        """What raw says of every key: the value of its highest number; a key stands once a load."""
        rows = self.raw().scan(selected_fields=("id", "v", "_mirror_seq")).to_arrow().to_pylist()
        seen = Counter((row["id"], row["_mirror_seq"]) for row in rows)
        assert max(seen.values()) == 1
        return {row["id"]: row["v"] for row in sorted(rows, key=lambda r: r["_mirror_seq"])}

    def receipts(self) -> list[Receipt]:
        """Of the successful loads, by number."""
        found = self.ask("SELECT receipt FROM loads WHERE state = 'success' ORDER BY seq")
        return [Receipt.from_json(text) for (text,) in found]

    def source(self) -> dict[int, int]:
        return {row[0]: row[1] for row in self.sql("SELECT id, v FROM big")}


@pytest.fixture
def world(
    server: EmbeddedServer, place: Place, database: str, sql: Callable[..., Any], fork: Fork
) -> World:
    sql(
        "CREATE TABLE big (id INT PRIMARY KEY, v INT, modified_at DATETIME(6) NOT NULL DEFAULT "
        "CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))",
        "INSERT INTO big (id, v, modified_at) SELECT seq * 10, seq, "
        f"UTC_TIMESTAMP(6) - INTERVAL 1 DAY FROM seq_1_to_{ROWS}",
        "ANALYZE TABLE big",
    )
    world = World(server, place, database, sql, fork, place.folder / f"{database}.yaml")
    world.contract("incremental")
    return world


def change(world: World) -> None:
    """Rows of the first chunks change, and one is new among them."""
    world.sql(
        "UPDATE big SET v = -1 WHERE id IN (10, 20)",
        "INSERT INTO big (id, v) VALUES (15, -2)",
        f"UPDATE big SET v = -3 WHERE id = {ROWS * 10}",
    )


# --- killed, and resumed ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failpoint", "read"),
    [
        pytest.param("chunk.written:5", 4),
        pytest.param("chunks.recorded:5", 5, marks=pytest.mark.full),
        pytest.param("commit.before", None),
    ],
)
def test_only_the_rest_is_read(world: World, failpoint: str, read: int | None) -> None:
    world.kill(failpoint)
    chunks_there = world.ask("SELECT COUNT(*) FROM chunks WHERE receipt IS NOT NULL")[0][0]
    workspace = world.workspace()
    (status,) = status_of(workspace.config, workspace.ledger, [workspace.config.table("big")])
    assert status.checks.startswith(f"{chunks_there} of ")
    change(world)
    before = world.sent()
    told: list[Progress] = []
    result = world.load(told.append)
    chunks = sum(world.readings().values())
    assert chunks > 6
    read = chunks if read is None else read
    # As many rows as there are chunks, and what the mirror asks besides.
    assert world.sent() - before < (chunks - read) * CHUNK * 2 + 500
    assert world.readings() == Counter({1: read, 2: chunks - read} if chunks > read else {1: read})
    assert result.rows == ROWS
    assert (told[0].rows > 3 * CHUNK, told[0].read, told[-1].rows) == (True, 0, ROWS)
    assert world.ask("SELECT attempt, state FROM loads") == [(2, "success")]
    assert world.ask("SELECT COUNT(*) FROM chunks") == [(0,)]
    # Each chunk shows a moment of its own, and the next window begins before all of them.
    (receipt,) = world.receipts()
    moments = receipt.moments_of()
    assert (len(moments), receipt.moments is None) == (chunks, False)
    assert receipt.hi == receipt.moment <= min(at for at, _ in moments).isoformat(sep=" ")
    shown = {position for _, position in moments}
    raw = world.raw().scan(selected_fields=("_mirror_position",)).to_arrow()
    assert shown == set(raw["_mirror_position"].to_pylist())
    assert receipt.position == min(moments)[1]
    assert (result.chunks, result.until > result.moment) == (chunks, True)
    changed = world.sql("SELECT MIN(modified_at) FROM big WHERE id = 15")[0][0]
    assert sum(at < changed for at, _ in moments) == read
    # What changed in finished chunks comes with the next window, which begins before them.
    assert world.mirrored() != world.source()
    world.load()
    assert world.mirrored() == world.source()


def test_the_result_is_mysqls_by_the_oracle(world: World) -> None:
    world.kill("chunk.written:4")
    change(world)
    world.kill("chunk.written:2")
    world.sql("UPDATE big SET v = -4 WHERE id = 30")
    workspace = world.workspace()
    contract = workspace.config.table("big")
    assert sync_table(workspace, contract).rows == ROWS
    assert world.readings().keys() == {1, 2, 3}
    sync_table(workspace, contract)
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "big"))
    assert deduped is not None
    with world.server.admin() as admin:
        verdict = compare_table(admin, world.database, "big", ("id",), deduped)
    assert verdict.equal, verdict.describe()


@pytest.mark.full
def test_a_look_at_the_source_knows_nothing_of_chunks_that_were_read_before_it(
    world: World,
) -> None:
    """What changed between a dead run's chunks and the run that resumed them was there when that
    run looked: nothing changed since, and the mirror has not got it."""
    world.kill("chunk.written:4")
    world.sql("UPDATE big SET v = -9 WHERE id IN (10, 20)")
    time.sleep(BLUR.total_seconds() + 1.2)
    workspace = world.workspace()
    contract = workspace.config.table("big")

    def sync() -> SyncResult:
        look = look_at(workspace.config, workspace.ledger, [contract])
        assert look.shown, "the source shows nothing"
        return sync_table(workspace, contract, look=look)

    assert sync().rows == ROWS
    assert world.readings().keys() == {1, 2}, "nothing was resumed"
    time.sleep(BLUR.total_seconds() + 1.2)
    assert not sync().unchanged
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "big"))
    assert deduped is not None
    with world.server.admin() as admin:
        verdict = compare_table(admin, world.database, "big", ("id",), deduped)
    assert verdict.equal, verdict.describe()


def test_keys_that_came_meanwhile_are_the_next_windows(world: World) -> None:
    """The last chunk is open above: what it reads later is not all that came since the first."""
    world.contract("append")
    world.kill("chunk.written:5")
    high = ROWS * 10
    (planned,) = world.ask("SELECT start FROM chunked_loads")[0]
    assert json.loads(planned)["top"] == str(high)
    world.sql(f"INSERT INTO big (id, v) SELECT {high} + seq, 0 FROM seq_1_to_50")
    assert world.load().rows == ROWS + 50
    assert world.ask("SELECT hi FROM windows") == [(str(high),)]
    # One that took its key before those, and committed after them.
    world.sql("DELETE FROM big WHERE id = 60007", "INSERT INTO big (id, v) VALUES (60007, 7)")
    world.load()
    assert world.mirrored() == world.source()


def test_a_reload_goes_on_too(world: World) -> None:
    day = datetime.now(UTC).date() - timedelta(days=1)
    midday = f"'{day} 12:00'"
    world.sql(f"UPDATE big SET modified_at = {midday}")
    world.load()
    world.sql(
        f"UPDATE big SET v = -1, modified_at = {midday} WHERE id IN (10, 20)",
        "UPDATE big SET v = -2 WHERE id = 30",
        "DELETE FROM big WHERE id = 40",
    )
    world.kill("chunk.written:5", str(day))
    workspace = world.workspace()
    before = world.sent()
    reload_days(workspace, workspace.config.table("big"), day, day)
    assert world.sent() - before < ROWS - 4 * CHUNK + 1_000
    assert world.ask("SELECT kind, attempt, l.state FROM loads l JOIN windows USING (load_id)") == [
        ("initial", 1, "success"),
        ("reload", 2, "success"),
    ]
    world.load()
    mirrored = world.mirrored()
    source = world.source()
    assert {k: v for k, v in mirrored.items() if k in source} == source


def test_an_interrupted_run_keeps_what_it_read(world: World, small: None) -> None:
    """Ctrl-C, or the end that an orchestrator asks for."""

    def interrupt(seen: Progress) -> None:
        if seen.rows > 5 * CHUNK:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.load(interrupt)
    assert world.ask("SELECT state, error FROM loads") == [("errored", "KeyboardInterrupt")]
    before = world.sent()
    assert world.load().rows == ROWS
    assert world.sent() - before < ROWS - 4 * CHUNK + 500
    assert world.mirrored() == world.source()


# --- read again ------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_load_in_between_ends_it(world: World) -> None:
    day = datetime.now(UTC).date() - timedelta(days=1)
    world.load()
    world.kill("chunk.written:5", str(day))
    world.sql("UPDATE big SET v = -1 WHERE id IN (10, 20)")
    world.load()
    workspace = world.workspace()
    contract = workspace.config.table("big")
    read = {path for path in world.files() if "-1-" in path.name}
    result = reload_days(workspace, contract, day, day)
    attempts = world.ask("SELECT attempt, state FROM loads ORDER BY seq")
    assert attempts == [(1, "success"), (1, "errored"), (1, "success"), (1, "success")]
    assert result.rows >= ROWS - 2
    assert world.mirrored() == world.source()
    # What the killed one left belongs to nobody now.
    recovered = recover_table(workspace, contract, timedelta())
    assert recovered.orphans >= 4
    assert len(read - world.files()) == recovered.orphans
    assert world.mirrored() == world.source()


CHANGES: dict[str, Callable[[World], Any]] = {
    "another server": lambda w: w.ask(
        "UPDATE chunked_loads SET basis = replace(basis, '\"server\": \"', '\"server\": \"x')"
    ),
    "another release": lambda w: w.ask(
        "UPDATE chunked_loads SET basis = replace(basis, '\"release\": \"', '\"release\": \"x')"
    ),
    "digests by another hash": lambda w: w.ask(
        "UPDATE chunked_loads SET basis = replace(basis, '\"hash of digests\": \"', '\"hash of digests\": \"x')"
    ),
    "an added column": lambda w: w.sql("ALTER TABLE big ADD COLUMN w INT NOT NULL DEFAULT 3"),
    "a table made again": lambda w: w.sql(
        "DO SLEEP(1)", "CREATE TABLE other LIKE big", "INSERT INTO other SELECT * FROM big",
        "DROP TABLE big", "RENAME TABLE other TO big",
    ),
    "another contract": lambda w: w.contract("incremental", start="2020-01-01"),
    "another mode": lambda w: w.contract("full"),
}  # fmt: skip


OFTEN = ("another server", "a table made again", "another contract")


@pytest.mark.parametrize(
    "what", [pytest.param(c, marks=() if c in OFTEN else pytest.mark.full) for c in CHANGES]
)
def test_what_would_be_read_otherwise_is_read_anew(world: World, what: str) -> None:
    world.kill("chunk.written:5")
    CHANGES[what](world)
    result = world.load()
    assert result.rows == ROWS
    assert world.ask("SELECT attempt, state FROM loads ORDER BY seq") == [
        (1, "errored"),
        (1, "success"),
    ]
    assert world.ask("SELECT COUNT(*) FROM chunked_loads") == [(0,)]
    assert world.mirrored() == world.source()


def spoil(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[:-1])
    else:  # as long as before, with another footer
        at = content.rindex(b"modified_at")
        path.write_bytes(content[:at] + b"modified_aT" + content[at + 11 :])


@pytest.mark.parametrize(
    "how", [*(pytest.param(how, marks=pytest.mark.full) for how in ("gone", "cut")), "another"]
)
def test_a_chunk_whose_file_is_not_as_it_was_is_read_again(world: World, how: str) -> None:
    world.kill("chunks.recorded:5")
    spoil(sorted(world.files())[1], how)
    assert world.load().rows == ROWS
    assert world.readings()[1] == 4
    assert world.mirrored() == world.source()


def test_what_an_attempt_was_about_to_commit_is_not_missed_in_raw(world: World) -> None:
    """It recorded its files, and died; one of them is lost, and is read again by another name."""
    world.kill("commit.before")
    spoil(sorted(world.files())[1], "gone")
    assert world.load().rows == ROWS
    assert world.mirrored() == world.source()
    workspace = world.workspace()
    listing = list_files(workspace.lake, workspace.ledger, workspace.config.table("big"))
    assert listing.found == []
    assert {record.name for record in listing.known} == set(listing.files)


def test_a_full_copy_is_one_moment(world: World) -> None:
    world.contract("full")
    world.kill("chunk.written")
    assert world.ask("SELECT COUNT(*) FROM chunked_loads") == [(0,)]
    change(world)
    assert world.load().rows == ROWS + 1
    assert [receipt.moments is None for receipt in world.receipts()] == [True]
    assert world.mirrored() == world.source()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks in this process too."""
    monkeypatch.setattr(protocol, "ROWS_PER_CHUNK", CHUNK)


def test_a_schema_that_changed_meanwhile_keeps_nothing(world: World, small: None) -> None:
    def alter(seen: Progress) -> None:
        if seen.ended:
            world.sql("ALTER TABLE big ADD COLUMN w INT")

    with pytest.raises(SchemaError):
        world.load(alter)
    assert world.ask("SELECT COUNT(*) FROM chunks") == [(0,)]
    assert world.files() == set()


# --- files of finished chunks, and owners that wake up --------------------------------------------


def test_finished_chunks_are_no_orphans_while_they_may_be_used(world: World) -> None:
    world.kill("chunk.written:5")
    workspace = world.workspace()
    contract = workspace.config.table("big")
    assert len(world.files()) == 5
    recovered = recover_table(workspace, contract, timedelta())
    # The fifth was written, and its writer died before it said so.
    assert (recovered.errored, recovered.orphans) == (1, 1)
    world.load()
    assert world.readings()[1] == 4
    assert recover_table(workspace, contract, timedelta()).orphans == 0
    assert world.mirrored() == world.source()


@pytest.mark.parametrize("when", ["in the middle", "just before its commit"])
def test_an_owner_that_stalled_commits_nothing(world: World, small: None, when: str) -> None:
    """Another run takes the load over, and ends it, while the first one sleeps."""
    done: list[SyncResult] = []

    def take_over(seen: Progress) -> None:
        late = seen.ended if when != "in the middle" else seen.rows > 5 * CHUNK
        if late and not done:
            world.ask("UPDATE leases SET expires_at = '2000-01-01 00:00:00.000000'")
            done.append(world.load())

    with pytest.raises(LeaseHeld):
        world.load(take_over)
    assert done[0].rows == ROWS
    assert world.readings()[1] >= 4
    assert world.ask("SELECT attempt, state FROM loads") == [(2, "success")]
    assert len(world.raw().snapshots()) == 1
    change(world)
    world.load()
    assert world.mirrored() == world.source()
