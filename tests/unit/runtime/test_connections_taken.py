"""A database whose connections are all taken: which errors say so, and how long one is waited for."""

from __future__ import annotations

import weakref
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from mirrorlake.runtime import database_waits
from mirrorlake.runtime.database_waits import bound_waits, step_for

TAKEN = [
    pymysql.OperationalError(1040, "Too many connections"),
    pymysql.OperationalError(1203, "User mirror already has more than 'max_user_connections'"),
    psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already"),
    psycopg.OperationalError("FATAL:  remaining connection slots are reserved for roles"),
    psycopg.OperationalError('FATAL:  too many connections for role "mirror"'),
]
OTHERS = [
    None,
    pymysql.OperationalError(1045, "Access denied for user"),
    psycopg.OperationalError("connection refused"),
]


@pytest.mark.parametrize("error", TAKEN)
def test_the_step_names_what_to_set(error: Exception) -> None:
    assert "max_connections" in step_for(error, "another")


@pytest.mark.parametrize("error", OTHERS)
def test_other_errors_keep_their_step(error: Exception | None) -> None:
    assert step_for(error, "another") == "another"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> sa.Engine:
    monkeypatch.setattr(database_waits, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(database_waits, "_LONGEST_PAUSE", 0.001)
    return bound_waits(sa.create_engine("mysql+pymysql://nobody@127.0.0.1:1/none"), 5)


@pytest.mark.parametrize(("error", "tried"), [(TAKEN[0], 4), (OTHERS[1], 1)])
def test_one_is_waited_for_and_nothing_else(
    engine: sa.Engine, error: Exception, tried: int
) -> None:
    calls: list[int] = []

    def connect() -> Any:
        calls.append(1)
        if len(calls) < 4:
            raise error
        return "a connection"

    waiting = weakref.ref(engine)
    if tried == 1:
        with pytest.raises(type(error)):
            database_waits._once_one_is_free(connect, 5, waiting)
    else:
        assert database_waits._once_one_is_free(connect, 5, waiting) == "a connection"
    assert len(calls) == tried


def test_it_is_waited_for_no_longer_than_that(engine: sa.Engine) -> None:
    def connect() -> Any:
        raise TAKEN[0]

    with pytest.raises(pymysql.OperationalError):
        database_waits._once_one_is_free(connect, 0.05, weakref.ref(engine))


def test_a_forked_process_closes_nothing_of_its_parents(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(type(engine), "dispose", lambda *_: closed.append("closed"))
    database_waits._give_back_idle(None)
    assert closed
    closed.clear()
    monkeypatch.setattr("os.getpid", lambda: -1)
    database_waits._give_back_idle(None)
    assert not closed
