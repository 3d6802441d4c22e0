"""The ledger on servers: the suites of `tests/unit/test_ledger*.py` over Postgres, MariaDB and
MySQL 8, and what only servers can get wrong: isolation, collations, precision, lengths."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from mirrorlake.alerts.ledger import Alert, SentAlerts
from mirrorlake.config import TableContract, default_namespaces
from mirrorlake.config.database_url import with_driver
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.model import snapshot_property
from mirrorlake.errors import LeaseHeld, LedgerError
from mirrorlake.ledger import LEDGER_VERSION, Lease, Ledger, Proof, RawFile, Receipt, Tenant, Window
from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.database.peek import first_days
from mirrorlake.ledger.database.settled_rows import find_first_days
from mirrorlake.ledger.lake import leases
from mirrorlake.ledger.lake.moved_days import MovedDays
from mirrorlake.ledger.loads import loads
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.ledger.tables import LOADS, MOVED_DAYS
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.versions import schema_version
from tests.integration.conftest import PASSWORD, USER, Place
from tests.integration.contract_files import write_contract
from tests.soak.runs import Order, Runner
from tests.support.postgres import Postgres, running_postgres
from tests.unit.ledger import test_chunks, test_ledger
from tests.unit.ledger.test_ledger import RECEIPT, TABLE, WINDOW, started

# What is about SQLite's file, or about no database at all.
ELSEWHERE = {
    "test_a_lock_is_waited_for_and_then_told",
    "test_a_damaged_file_is_one_line",
    "test_a_file_that_cant_be_opened_is_not_said_to_be_held",
    "test_an_older_file_in_the_place_of_an_open_one_is_not_said_to_be_held",
    "test_a_receipt_survives_its_text",
    "test_a_receipt_tells_which_moment_each_chunk_shows",
    "test_a_password_is_not_shown",
}
SUITE = {
    name: test
    for suite in (test_ledger, test_chunks)
    for name, test in vars(suite).items()
    if name.startswith("test_")
}
assert SUITE.keys() > ELSEWHERE
globals().update({name: test for name, test in SUITE.items() if name not in ELSEWHERE})


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test on every server; `make test` runs them on Postgres alone (SQLite has its own)."""
    own = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "url" not in metafunc.fixturenames or "url" in own:
        return
    servers = [
        pytest.param(name, marks=() if name == "postgres" else pytest.mark.full)
        for name in ("postgres", "mariadb", "mysql8")
    ]
    metafunc.parametrize("url", servers, indirect=True)


@pytest.fixture(scope="module")
def made(postgres: Postgres) -> str:
    """A database with a ledger: a copy of it takes a fifth of the time that making one does."""
    postgres.put_database("made")
    Ledger(postgres.url("made"))
    return "made"


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the test's own."""
    name = f"ledger_{uuid.uuid4().hex[:10]}"
    if request.param == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        made = "ledger" in request.fixturenames
        postgres.put_database(name, request.getfixturevalue("made") if made else "template0")
        yield postgres.url(name)
        with postgres.admin() as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    else:
        server: EmbeddedServer = request.getfixturevalue(request.param)
        with server.admin() as admin, admin.cursor() as cursor:
            # What a careless server has: names in any case are one, texts are cut silently.
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET latin1")
            cursor.execute("SET GLOBAL sql_mode = ''")
        yield f"mysql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/{name}"
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {name}")
            cursor.execute("SET GLOBAL sql_mode = DEFAULT")


@pytest.fixture
def ledger(url: str) -> Ledger:
    return Ledger(url)


@pytest.fixture
def ask(ledger: Ledger, url: str) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """The ledger's database, past the ledger."""
    engine = sa.create_engine(
        with_driver(url),
        isolation_level="AUTOCOMMIT",
        connect_args={"password": PASSWORD.encode()} if url.startswith("mysql") else {},
    )

    def ask(query: str, *values: Any) -> list[tuple[Any, ...]]:
        with engine.connect() as connection:
            done = connection.exec_driver_sql(query.replace("?", "%s"), values or None)
            return [tuple(row) for row in done] if done.returns_rows else []

    yield ask
    engine.dispose()


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_who_may_only_read_opens_it(
    url: str, ledger: Ledger, ask: Callable[..., list[tuple[Any, ...]]]
) -> None:
    """Also where there are marks of long ago, which others forget."""
    identity, mark = ledger.identity(), "commit:" + "0" * 32
    ask("INSERT INTO mirrorlake_meta VALUES (?, '2020-01-01T00:00:00')", mark)
    ask(f"ALTER DATABASE {url.rpartition('/')[2]} SET default_transaction_read_only = on")
    reader = Ledger(url)
    assert reader.identity() == identity
    with pytest.raises(LedgerError, match="read-only transaction"):
        reader.record_definition("view a", "")


# --- leases ---------------------------------------------------------------------------------------


def test_of_two_that_saw_the_same_free_table_one_wins(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read the lease before either writes it: the second write must see the first."""
    with Ledger(url).lease(TABLE, "earlier"):
        pass
    ledgers = [Ledger(url), Ledger(url)]
    both_read, both_done = threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)
    now = Database.now
    waited = threading.local()

    def after_reading(self: Database, connection: sa.Connection) -> datetime:
        if not getattr(waited, "done", False):
            waited.done = True
            both_read.wait()
        return now(self, connection)

    monkeypatch.setattr(Database, "now", after_reading)

    def take(ledger: Ledger) -> int | None:
        try:
            with ledger.lease(TABLE, "run") as lease:
                both_done.wait()
                return lease.token
        except LeaseHeld:
            both_done.wait()
            return None

    with ThreadPoolExecutor(2) as pool:
        tokens = list(pool.map(take, ledgers))
    assert sorted(tokens, key=str) == [2, None]


RACER = """
import sys
from mirrorlake.errors import LeaseHeld
from mirrorlake.ledger import Ledger
ledger = Ledger(sys.argv[1])
print("ready", flush=True)
for table in sys.stdin:
    try:
        with ledger.lease(table.strip(), "racer") as lease:
            print(lease.token, flush=True)
            sys.stdin.readline()
    except LeaseHeld:
        print("held", flush=True)
        sys.stdin.readline()
"""


def test_of_racing_processes_exactly_one_wins_and_an_empty_ledger_is_made_once(url: str) -> None:
    """Three processes open a ledger that isn't there yet, then race for table after table."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        for _ in range(3)
    ]

    def say(word: str) -> None:
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{word}\n")
            racer.stdin.flush()

    def heard() -> list[str]:
        return [racer.stdout.readline().strip() for racer in racers if racer.stdout]

    try:
        assert heard() == ["ready"] * 3
        for turn in range(1, 9):
            table = TABLE if turn % 2 else f"s.shop.t{turn}"
            say(table)
            token = str((turn + 1) // 2) if turn % 2 else "1"
            assert sorted(heard()) == [token, "held", "held"], table
            say("on")
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


def test_a_machine_whose_clock_is_late_keeps_its_lease(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases run by the server's clock: the machines that share a ledger may disagree."""
    monkeypatch.setattr(leases, "utc_now", lambda: datetime(2001, 1, 1))
    with Ledger(url).lease(TABLE, "late"):
        monkeypatch.undo()
        with pytest.raises(LeaseHeld), Ledger(url).lease(TABLE, "other"):
            pass


# --- what servers do to values --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [("s.shop.A", "s.shop.a"), ("s.shop.é", "s.shop.e"), ("s.shop.🐟", "s.shop.🐠")],
    ids=["case", "accent", "emoji"],
)
def test_names_that_a_collation_takes_for_one_are_two(
    url: str, ledger: Ledger, one: str, other: str
) -> None:
    with ledger.lease(one, "run"), Ledger(url).lease(other, "run"):
        pass
    ledger.finish_load(started(ledger, one), 1, RECEIPT)
    waiting = started(ledger, other)
    assert [load.table for load in ledger.successful_loads(one)] == [one]
    assert ledger.unsettled_loads(other) == [waiting]
    ledger.record_folds(one, "deduped", [1])
    assert ledger.folded_loads(other, "deduped") == set()
    for name in (one, other):
        ledger.record_definition(name, name)
    assert (ledger.definition(one), ledger.definition(other)) == (one, other)


def test_what_is_settled_and_first_days_are_told_alike(url: str, ledger: Ledger) -> None:
    with ledger.lease(TABLE, "run"):
        load = started(ledger)
    name = f"_mirror_day=2013-01-01/{load.load_id}-1-00000.parquet"
    ledger.record_raw_files(TABLE, [RawFile(name, "raw", load.seq, 1, 1, "0")])
    ledger.finish_load(load, 1, RECEIPT)
    ledger.record_folds(TABLE, "deduped", [load.seq], "fold")
    found = ledger.settled_since(0)
    told = [(one.what, one.seq, one.run_id) for one in found.found]
    assert [what for what, _, _ in told] == ["load", "deduped"]
    assert told[1] == ("deduped", load.seq, "fold")
    assert ledger.settled_since(found.highest).found == ()
    assert ledger.settled_since(found.highest, [found.found[0].number]).found == found.found[:1]
    first = date(2013, 1, 1)
    assert ledger.days_written(TABLE, [load.seq]) == {load.seq: {first}}
    assert ledger.loaded_tables([TABLE, "s.shop.none"]) == {TABLE}
    assert ledger.unfolded_of(TABLE, "deduped") == (True, [])
    assert [one.seq for one in ledger.unfolded_of(TABLE, "clean")[1]] == [load.seq]
    assert set(ledger.newest_copies(TABLE)) <= {load.window.day}
    assert ledger.moving_before(TABLE, load.seq) is None
    with ledger._database.read() as connection:
        assert find_first_days(connection, files=True) == {TABLE: first}
    contract = TableContract(
        source="s",
        database="shop",
        table="t",
        mode="append",
        cursor="at",
        namespaces=default_namespaces("s", "shop"),
    )
    assert first_days(url, [contract], 5) == {TABLE: first}


def test_long_texts_are_kept_whole(ledger: Ledger) -> None:
    """A GTID set of years, a view over thousands of columns, an error in four-byte letters."""
    long = Receipt(**{**RECEIPT.__dict__, "position": "0-1-5," * 40_000})
    load = started(ledger)
    ledger.finish_load(load, 1, long)
    (found,) = ledger.successful_loads(TABLE)
    assert found.receipt == long
    version = schema_version("t", [(f"größe_{i}", "varchar(255)") for i in range(4_000)])
    ledger.record_schema_version(TABLE, version)
    assert ledger.schema_versions(TABLE) == [version]
    ledger.record_definition("view v", "SELECT 🐟 " * 10_000)
    assert ledger.definition("view v") == "SELECT 🐟 " * 10_000
    failed = started(ledger)
    ledger.fail_load(failed, "🐟" * 5_000)
    last = ledger.last_load(TABLE)
    assert last is not None
    assert last.error == "🐟" * 4_000


@pytest.mark.parametrize("text", ["a\0b", "a\udcffb"], ids=["NUL", "half a letter"])
def test_a_failure_is_noted_whatever_its_text(ledger: Ledger, text: str) -> None:
    ledger.fail_load(started(ledger), text)
    last = ledger.last_load(TABLE)
    assert last is not None
    assert last.state == "errored"


def test_a_name_that_has_no_place_is_refused_not_cut(ledger: Ledger) -> None:
    with pytest.raises(LedgerError):
        started(ledger, f"s.shop.{'t' * 300}")
    assert ledger.last_load(f"s.shop.{'t' * 248}") is None


def test_times_are_kept_to_the_microsecond(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 3, 29, 1, 30, 0, 123457)
    monkeypatch.setattr(loads, "utc_now", lambda: at)
    assert started(ledger).started_at.replace(tzinfo=None) == at


# --- order and isolation --------------------------------------------------------------------------


def test_a_load_that_starts_later_has_a_higher_number_whoever_commits_first(url: str) -> None:
    """A transaction of another table stays open: the numbers of this one are still in order."""
    database = Database(url)
    ledger = Ledger(url)
    load_id = ledger.create_load("s.shop.slow", WINDOW)
    with database.begin() as connection:
        held = connection.execute(
            LOADS.insert().values(
                load_id=load_id, attempt=1, table_name="s.shop.slow", state="pending", run_id="r",
                token=1, raw_table="t", started_at=datetime(2026, 1, 1),
            )
        ).inserted_primary_key  # fmt: skip
        numbers = [started(ledger).seq for _ in range(3)]
    assert held is not None
    assert numbers == sorted({*numbers})
    assert held[0] < numbers[0]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_counter_that_went_back_is_refused(ledger: Ledger, ask: Callable[..., Any]) -> None:
    """As after a restored sequence. (InnoDB moves its counter past the highest by itself.)"""
    first, second = started(ledger), started(ledger)
    assert first.seq < second.seq
    ask("DELETE FROM loads WHERE seq = ?", first.seq)
    ask("SELECT setval('loads_seq_seq', ?, false)", first.seq)
    load_id = ledger.create_load(TABLE, WINDOW)
    with pytest.raises(LedgerError, match=f"sequence number {first.seq} after {second.seq}"):
        ledger.start_load(load_id, Lease(TABLE, "o", 1), "run", "t_v_1", None)
    assert ask("SELECT state FROM windows WHERE load_id = ?", load_id) == [("created",)]
    assert ask("SELECT COUNT(*) FROM loads") == [(1,)]


def test_what_is_read_in_one_transaction_is_one_state(url: str, ledger: Ledger) -> None:
    database = Database(url)
    count = sa.select(sa.func.count()).select_from(LOADS)
    with database.read() as connection:
        before = connection.scalar(count)
        started(ledger)
        assert connection.scalar(count) == before
    with database.read() as connection:
        assert connection.scalar(count) == 1
    with pytest.raises(LedgerError), database.read() as connection:
        connection.execute(LOADS.delete())


def test_writers_of_different_tables_never_deadlock(url: str) -> None:
    """Deleting what is not there and writing it: the gap locks of a stricter isolation meet."""
    ledgers = [Ledger(url) for _ in range(6)]

    def write(number: int) -> None:
        for turn in range(15):
            ledgers[number].record_definition(f"view {number:02} {turn}", "SELECT 1")
            version = schema_version("t", [("a", f"int {turn}")])
            ledgers[number].record_schema_version(f"s.shop.t{number}", version)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))


# --- the server itself ----------------------------------------------------------------------------


def test_of_two_first_records_of_moved_days_one_stays(url: str, ledger: Ledger) -> None:
    mine, other = (MovedDays("t", "sold_at", base=n, through=n) for n in (1, 2))
    row = {"lake_table": "t", "column_name": "sold_at"}
    said = '{"base": 2, "through": 2, "anything": 0, "undated": 0, "days": {}, "heads": {}}'
    with ThreadPoolExecutor(1) as pool:
        with Database(url).begin() as connection:
            connection.execute(MOVED_DAYS.insert().values(**row, said=said))
            waiting = pool.submit(ledger.record_moved_days, mine)
            time.sleep(0.5)  # it saw no row, and waits for this one
        waiting.result(30)
    assert ledger.moved_days("t", "sold_at") in (mine, other)


def test_a_lock_of_another_is_waited_for_and_then_told(url: str, ledger: Ledger) -> None:
    load = started(ledger)
    with Database(url).begin() as connection:
        connection.execute(LOADS.update().where(LOADS.c.seq == load.seq).values(state="success"))
        with pytest.raises(LedgerError, match=r"waited up to 1 s") as caught:
            Ledger(url, timedelta(seconds=1)).fail_load(load, "no")
        assert caught.value.retryable
        assert "\n" not in str(caught.value)
    ledger.fail_load(load, "no")


@pytest.mark.parametrize(
    ("change", "retryable", "words"),
    [
        (("127.0.0.1:", "127.0.0.1:1"), True, "See that the server runs"),
        (("/ledger_", "/nowhere_"), False, "nowhere_"),
        ((f"{USER}:", f"{USER}:wrong"), False, f"{USER}"),
    ],
    ids=["no server", "no such database", "wrong password"],
)
def test_a_server_that_can_not_be_used_is_one_line_without_a_password(
    url: str, change: tuple[str, str], retryable: bool, words: str
) -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger(url.replace(*change), timedelta(seconds=2))
    assert caught.value.retryable is retryable
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    for secret in (PASSWORD, quote(PASSWORD, safe="")):
        assert secret not in str(caught.value)


def test_a_lost_connection_is_made_anew(
    url: str, ledger: Ledger, request: pytest.FixtureRequest
) -> None:
    load = started(ledger)
    if url.startswith("mysql"):
        kind: str = request.node.callspec.params["url"]
        server: EmbeddedServer = request.getfixturevalue(kind)
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE user = %s", (USER,))
            for (number,) in cursor.fetchall():
                cursor.execute(f"KILL {number}")
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        with postgres.admin() as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname LIKE 'ledger_%'"
            )
    assert ledger.unsettled_loads(TABLE) == [load]


def test_a_postgres_that_is_not_in_utf8_is_refused(postgres: Postgres) -> None:
    with postgres.admin() as admin:
        admin.execute(
            "CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    with pytest.raises(LedgerError, match="not in UTF8"):
        Ledger(postgres.url("old"))


def test_no_connection_is_left_behind(url: str, ask: Callable[..., Any]) -> None:
    """A daemon opens a ledger at each tick."""
    table, state = (
        ("information_schema.processlist", "db")
        if url.startswith("mysql")
        else ("pg_stat_activity", "datname")
    )
    name = url.rpartition("/")[2]
    query = f"SELECT COUNT(*) FROM {table} WHERE {state} = ?"
    ((before,),) = ask(query, name)
    for _ in range(5):
        Ledger(url).last_load(TABLE)
    for _ in range(50):
        ((after,),) = ask(query, name)
        if after <= before:
            break
        threading.Event().wait(0.1)
    assert after <= before


def test_a_lease_and_its_load_through_a_whole_life(url: str) -> None:
    """What one run does, as the engine calls it."""
    ledger = Ledger(url)
    with ledger.lease(TABLE, "run") as lease:
        load_id = ledger.create_load(TABLE, Window("initial", None, None, WINDOW.day))
        load = ledger.start_load(load_id, lease, "run", "t_v_1", 9_000_000_000_000_000_000)
        assert isinstance(lease, Lease)
        ledger.check_lease(lease)
        ledger.finish_load(load, 9_100_000_000_000_000_000, RECEIPT)
        ledger.record_folds(TABLE, "deduped", [load.seq])
    (done,) = ledger.successful_loads(TABLE)
    assert done.parent_snapshot == 9_000_000_000_000_000_000
    assert done.snapshot_id == 9_100_000_000_000_000_000
    assert done.window.day == WINDOW.day


def test_a_migration_that_was_interrupted_is_finished(url: str, ask: Callable[..., Any]) -> None:
    """In MySQL a step's DDL stays though the run died before the version was written."""
    ask("UPDATE mirrorlake_meta SET value = '6' WHERE name = 'version'")
    ask("ALTER TABLE refusals DROP COLUMN first_refused_at")
    ask("ALTER TABLE tenants DROP COLUMN verdict_words")
    ask("ALTER TABLE tenants DROP COLUMN log_place")
    ask("ALTER TABLE costs DROP COLUMN seconds")
    load = started(Ledger(url))
    assert load.state == "pending"
    assert ask("SELECT value FROM mirrorlake_meta WHERE name = 'version'") == [
        (str(LEDGER_VERSION),)
    ]
    opened = Ledger(url)
    opened.record_refusal(TABLE, "for a test")
    found = opened.refusals()[TABLE]
    assert found.since == found.at
    opened.record_cost(TABLE, "deduped", 1, None, 7, 2.5)
    opened.declare_invalid([DirtyMark("m", "d", "m.daily", "ä" * 3_000, "ann", key="day=ä")])
    assert [one.reason for one in opened.dirty_marks()] == ["ä" * 3_000]
    opened.record_tenants("g.t", [Tenant("s", "d", found.at, verdict_words="ä" * 3_000)])
    assert opened.tenants("g.t")["s", "d"].verdict_words == "ä" * 3_000


def test_ends_of_chunks_are_texts_of_any_length(url: str) -> None:
    end = '["' + "ä" * 3_000 + '"]'
    at = datetime(2026, 1, 1, tzinfo=UTC)
    proof = Proof(
        check_id="c", table=TABLE, asked="next", lo=None, hi=end, verdict="equal",
        source_rows=1, lake_rows=1, source_digest="0", lake_digest="0", waiting=0, differences=0,
        server="s", position="p", source_time=at, snapshot_id=None, through_seq=1, code="v",
        started_at=at, seconds=0.1, source_bytes=1, evidence="e",
    )  # fmt: skip
    ledger = Ledger(url)
    ledger.record_proofs([proof], (end,))
    assert ledger.proof_offset(TABLE) == end
    assert ledger.proofs(TABLE) == [proof]


def test_a_hook_has_a_name_of_any_length_that_a_contract_takes(
    url: str, ask: Callable[..., Any]
) -> None:
    hook = "services." + "x" * 32
    alert = Alert(TABLE, "late", datetime(2026, 1, 1, tzinfo=UTC))
    Ledger(url)
    # As a ledger of the version before had it.
    change = "ALTER COLUMN hook TYPE" if url.startswith("postgres") else "MODIFY COLUMN hook"
    ask(f"ALTER TABLE alerts {change} VARCHAR(16)")
    ask("UPDATE mirrorlake_meta SET value = '6' WHERE name = 'version'")
    ledger = Ledger(url)
    assert SentAlerts(ledger).claim_begun(hook, [alert]) == [alert]
    SentAlerts(ledger).delivered(hook, [alert], [])
    assert SentAlerts(ledger).notified(hook) == {(TABLE, "late")}


@pytest.mark.full
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_two_runs_of_one_table_at_once(
    url: str, mariadb: MariaDB, place: Place, database: str, sql: Callable[..., Any], runner: Runner
) -> None:
    """Real runs, as processes: each waits for the other, and each load id is in the lake once."""
    sql(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        "INSERT INTO t (v) SELECT seq FROM seq_1_to_50",
    )
    config = write_contract(
        place.folder / f"{database}.yaml",
        mariadb.port,
        {database: {"tables": {"t": {"mode": "append", "key": ["id"], "cursor": "id"}}}},
        ledger={
            "url": url.replace(quote(PASSWORD, safe=""), "${env:TEST_PASSWORD}"),
            "wait": "20s",
        },
    )
    order = Order(config, f"s.{database}.t", "load", spark=False)
    assert runner.run(order).code == 0
    sql("INSERT INTO t (v) VALUES (51)")
    runs = [runner.start(order) for _ in range(3)]
    assert [runner.wait(run) for run in runs] == [0, 0, 0], [run.error for run in runs]
    loads = Ledger(url).successful_loads(order.table)
    assert len(loads) == 4
    raw = place.lake.load(Identifier(f"s_{database}__raw", loads[0].raw_table))
    assert raw is not None
    ids = [snapshot_property(snapshot, LOAD_ID) for snapshot in raw.snapshots()]
    assert sorted(map(str, ids)) == sorted(load.load_id for load in loads if load.snapshot_id)
    assert len(set(raw.scan().to_arrow()["id"].to_pylist())) == 51
