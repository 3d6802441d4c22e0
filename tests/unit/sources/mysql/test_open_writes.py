"""What is open on a server: which statements may write, what a look remembers, InnoDB's status."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from mirrorlake.sources.mysql.changes.open_writes import (
    NO_CONNECTION,
    OpenWrites,
    Waited,
    may_write,
    transactions_of_status,
)

NOON = datetime(2026, 1, 1, 12)


def minutes(number: float) -> datetime:
    return NOON - timedelta(minutes=number)


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("INSERT INTO t SELECT 1", True),
        ("/* app: x */ update t set a = 1", True),
        ("-- note\n  DELETE FROM t", True),
        ("WITH a AS (SELECT 1) UPDATE t SET b = 1", True),
        ("CALL p()", True),
        ("/*!50000 INSERT */ INTO t VALUES (1)", True),
        ("/* an endless comment", True),
        ("", True),
        (None, True),
        ("LOAD DATA INFILE 'x' INTO TABLE t", True),
        ("((SELECT 1))", False),
        ("/* mirrorlake load 1 */ SELECT * FROM t", False),
        ("SHOW TABLES", False),
        ("ALTER TABLE t ADD c INT", False),
    ],
)
def test_statements_that_may_write(text: str | None, writes: bool) -> None:
    assert may_write(text) is writes


def test_a_statement_that_waited_is_remembered_while_its_transaction_is_open() -> None:
    first = OpenWrites(statements={7: minutes(40), 8: minutes(30)})
    assert first.oldest == minutes(40)
    later = OpenWrites(transactions={7: minutes(5)}).after(first.remembered())
    assert later.waited == (Waited(7, minutes(40), minutes(5)),)
    assert later.oldest == minutes(40)
    blurred = minutes(5) + timedelta(seconds=1)
    again = OpenWrites(transactions={7: blurred, 9: minutes(1)}).after(later.remembered())
    assert again.oldest == minutes(40)
    assert OpenWrites(transactions={9: minutes(1)}).after(again.remembered()).oldest == minutes(1)


def test_the_next_transaction_of_the_same_connection_is_another_one() -> None:
    """Else the windows of a busy server would never come forward again."""
    first = OpenWrites(statements={7: minutes(40)})
    later = OpenWrites(transactions={7: minutes(25)}).after(first.remembered())
    assert OpenWrites(transactions={7: minutes(2)}).after(later.remembered()).oldest == minutes(2)


def test_a_statement_in_a_transaction_waits_for_nothing() -> None:
    """Its rows are stamped after its transaction began."""
    busy = OpenWrites(statements={7: minutes(1)}, transactions={7: minutes(2)})
    assert busy.oldest == minutes(2)
    assert busy.remembered() == ()


def test_a_wait_that_ended_between_the_two_lists_is_remembered() -> None:
    look = OpenWrites(statements={7: minutes(40)}, transactions={7: minutes(0)})
    assert OpenWrites(transactions={7: minutes(0)}).after(look.remembered()).oldest == minutes(40)


@pytest.mark.parametrize("joined", [None, minutes(3)])
def test_what_is_kept_is_read_back(joined: datetime | None) -> None:
    waited = Waited(7, minutes(40), joined)
    assert Waited.from_plain(waited.to_plain()) == waited


STATUS = """
LATEST DETECTED DEADLOCK
*** (1) TRANSACTION:
TRANSACTION 1, ACTIVE 999 sec
TRANSACTIONS
LIST OF TRANSACTIONS FOR EACH SESSION:
---TRANSACTION 421353451633400, not started
0 lock struct(s), heap size 1136, 0 row lock(s)
---TRANSACTION 21, ACTIVE 60 sec
2 lock struct(s), heap size 1128, 2 row lock(s), undo log entries 1
MariaDB thread id 10, OS thread handle 140581797865152, query id 58 localhost root
---TRANSACTION 22, ACTIVE 600 sec fetching rows
MySQL thread id 11, OS thread handle 1, query id 59 localhost root executing
SELECT '
--------
FILE I/O
--------
' FROM t
---TRANSACTION 23, ACTIVE 120 sec inserting
mysql tables in use 1, locked 1
MySQL thread id 12, OS thread handle 1, query id 60 localhost root update
INSERT INTO t VALUES (1)
---TRANSACTION 24, ACTIVE 900 sec
MySQL thread id 13, OS thread handle 1, query id 61 localhost root
Trx read view will not see trx with id >= 24, sees < 20
---TRANSACTION 25, ACTIVE (PREPARED) 1200 sec recovered trx
0 lock struct(s), heap size 1136, 0 row lock(s), undo log entries 3
---TRANSACTION 26, ACTIVE 5 sec
MySQL thread id 99, OS thread handle 1, query id 62 localhost me
SHOW ENGINE INNODB STATUS
--------
FILE I/O
--------
Pending flushes (fsync): 0
"""


def test_transactions_by_the_status() -> None:
    told = transactions_of_status(STATUS, NOON, own=99)
    assert told is not None
    found, readers = told
    second = timedelta(seconds=1)
    # They have not written yet.
    assert readers == [minutes(10) - second, minutes(15) - second]
    assert found == {
        10: minutes(1) - second,
        12: minutes(2) - second,
        NO_CONNECTION: minutes(20) - second,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        STATUS.partition("LIST OF")[0],
        STATUS.replace("ACTIVE 60", "... truncated...\nACTIVE 60"),
    ],
)
def test_a_status_that_is_cut_is_not_believed(text: str) -> None:
    assert transactions_of_status(text, NOON, own=99) is None
