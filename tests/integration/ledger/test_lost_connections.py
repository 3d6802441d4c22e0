"""A ledger on Postgres whose server restarts, and connections that break in any step: what was
written is there once, and no wait is without end."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import date, timedelta

import pytest

from mirrorlake.errors import LedgerError
from mirrorlake.ledger import Ledger, Window
from tests.soak.proxy import Proxy
from tests.support.postgres import Postgres, running_postgres
from tests.support.word_proxy import How, WordProxy

TABLE = "s.d.t"
WINDOW = Window("cursor", "0", "1", date(2026, 1, 1))


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def url(postgres: Postgres) -> str:
    name = f"ledger_{uuid.uuid4().hex[:10]}"
    with postgres.admin() as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return postgres.url(name)


def windows(postgres: Postgres, url: str, table: str) -> list[str]:
    """The loads of a table, past the ledger."""
    with postgres.admin(url.rpartition("/")[2]) as admin:
        query = "SELECT load_id FROM windows WHERE table_name = %s"
        return sorted(load_id for (load_id,) in admin.execute(query, (table,)))


def shut_down(postgres: Postgres) -> None:
    """What a server does to its sessions when it is shut down."""
    with postgres.admin() as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname LIKE 'ledger_%'"
        )


@pytest.mark.parametrize("how", ["shut down", pytest.param("unreachable", marks=pytest.mark.full)])
def test_a_server_that_is_gone_for_a_while_is_waited_for(
    postgres: Postgres, url: str, how: str
) -> None:
    """Writers continue all the while: each of their loads is there once."""
    proxy = Proxy(postgres.port)
    ledger = Ledger(url.replace(str(postgres.port), str(proxy.port)))
    made: dict[int, list[str]] = {0: [], 1: []}
    failed: list[BaseException] = []
    stop = threading.Event()

    def write(number: int) -> None:
        try:
            while not stop.is_set():
                made[number].append(ledger.create_load(f"{TABLE}{number}", WINDOW))
        except BaseException as error:
            failed.append(error)
            raise

    writers = [threading.Thread(target=write, args=(number,)) for number in made]
    for writer in writers:
        writer.start()
    for _ in range(3):
        before = [len(ids) for ids in made.values()]
        while any(len(ids) < n + 5 for ids, n in zip(made.values(), before, strict=True)):
            assert not failed
            time.sleep(0.01)
        if how == "shut down":
            shut_down(postgres)
        else:
            assert proxy.cut(1.0)
    stop.set()
    for writer in writers:
        writer.join()
    proxy.stop()
    assert not failed
    for number, ids in made.items():
        assert windows(postgres, url, f"{TABLE}{number}") == sorted(ids)


# How it breaks, and at which word: of a transaction's begin, of its write, and of its end.
BREAKS = [
    ("COMMIT", "before"),
    ("COMMIT", "after"),
    ("COMMIT", "stall"),
    *(
        pytest.param(word, how, marks=pytest.mark.full)
        for word in ("BEGIN", "INSERT INTO", "COMMIT")
        for how in ("before", "after", "stall", "slow")
        if (word, how) not in (("COMMIT", "before"), ("COMMIT", "after"), ("COMMIT", "stall"))
    ),
]


@pytest.mark.parametrize(("word", "how"), BREAKS)
def test_what_was_written_is_there_once(postgres: Postgres, url: str, word: str, how: How) -> None:
    # Not `READ COMMITTED`: a statement's text ends with a zero byte.
    end = b"\0" if word == "COMMIT" else b" "
    with WordProxy(postgres.port, word.encode() + end, how) as proxy:
        ledger = Ledger(url.replace(str(postgres.port), str(proxy.port)), timedelta(seconds=2))
        proxy.arm()
        load_id = ledger.create_load(TABLE, WINDOW)
        assert proxy.met.is_set()
    assert windows(postgres, url, TABLE) == [load_id]


@pytest.mark.parametrize(
    ("word", "how"), [*BREAKS, pytest.param("INSERT INTO", "before", id="first-write")]
)
def test_what_was_written_together_is_there_once(
    postgres: Postgres, url: str, word: str, how: How
) -> None:
    """Several calls in one transaction are done again together, or not at all."""
    end = b"\0" if word == "COMMIT" else b" "
    made: list[str] = []
    with WordProxy(postgres.port, word.encode() + end, how) as proxy:
        ledger = Ledger(url.replace(str(postgres.port), str(proxy.port)), timedelta(seconds=2))
        proxy.arm()
        ledger.together(
            lambda: ledger.record_definition("view v", "SELECT 1"),
            lambda: made.append(ledger.create_load(TABLE, WINDOW)),
        )
        assert proxy.met.is_set()
    assert windows(postgres, url, TABLE) == made[-1:]
    assert Ledger(url).definition("view v") == "SELECT 1"


@pytest.mark.parametrize("how", ["before", pytest.param("stall", marks=pytest.mark.full)])
def test_a_lease_outlives_its_connection(postgres: Postgres, url: str, how: How) -> None:
    with WordProxy(postgres.port, b"UPDATE leases", how) as proxy:
        ledger = Ledger(url.replace(str(postgres.port), str(proxy.port)), timedelta(seconds=2))
        with ledger.lease(TABLE, "run") as lease:
            ledger.check_lease(lease)
            proxy.arm()
        assert proxy.met.is_set()
        assert not ledger.is_held(TABLE)


def test_a_server_that_stays_away_ends_the_wait(postgres: Postgres, url: str) -> None:
    """With how long it was really waited for."""
    with WordProxy(postgres.port, b"", "before") as proxy:
        ledger = Ledger(url.replace(str(postgres.port), str(proxy.port)), timedelta(seconds=2))
    with pytest.raises(LedgerError, match=r"\(waited [23]\.\d s for a connection\)") as caught:
        ledger.create_load(TABLE, WINDOW)
    assert caught.value.retryable
    assert windows(postgres, url, TABLE) == []


@pytest.mark.full
def test_a_server_that_crashes(postgres: Postgres, url: str) -> None:
    """It ends all sessions when one is killed, and may give out their transactions' numbers
    again."""
    ledger = Ledger(url)
    made = [ledger.create_load(TABLE, WINDOW) for _ in range(5)]
    with postgres.admin() as admin:
        os.kill(admin.info.backend_pid, signal.SIGKILL)
    made += [ledger.create_load(TABLE, WINDOW) for _ in range(5)]
    assert windows(postgres, url, TABLE) == sorted(made)
