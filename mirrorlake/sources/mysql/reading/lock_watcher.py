"""Watch over a load's reads: a process of its own (`helper_processes`), with one connection.

It reads one line of JSON from its input, waits for as long as a read may last before anybody looks,
then looks about once a second, ends the load's reads (``KILL``) when one of them stands in the way,
prints why as one line of JSON, and ends; or it ends when that input closes. What the account may
not see is not looked for. Only the standard library and PyMySQL.

Source: MySQL 8.0 manual, 27.12.13.3 "The metadata_locks Table", 8.14.3 "General Thread States".
"""

from __future__ import annotations

import json
import os
import re
import select
from typing import Any, TextIO

import pymysql

from mirrorlake.sources.mysql.reading.proxy import login_arguments

_LOOK_SECONDS = 1.0
_ANSWER_SECONDS = 60
_WAITS = "waiting for table metadata lock"


def watch(lines: TextIO, tell: int) -> None:
    """Watch until a read was ended, or the input closes.

    Args:
        lines: its input.
        tell: the descriptor of its output.
    """
    settings: dict[str, Any] = json.loads(lines.readline())
    if _is_over(lines, settings["patience"]):
        return
    connection = _log_in(settings)
    with connection.cursor() as cursor:
        for statement in settings["first"]:
            cursor.execute(statement)
        while not _is_over(lines, _LOOK_SECONDS):
            reason = _look(cursor, settings, lines)
            if reason is not None:
                os.write(tell, f"{json.dumps(reason)}\n".encode())
                return


def _is_over(lines: TextIO, seconds: float = 0) -> bool:
    """Whether our input closes within some time: the load is done with its reads."""
    return bool(select.select([lines], [], [], seconds)[0])


def _log_in(settings: dict[str, Any]) -> Any:
    return pymysql.connect(
        **login_arguments(settings),
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=10,
        # Its looks take a moment. Where none is answered it ends, and the read continues.
        read_timeout=_ANSWER_SECONDS,
        write_timeout=_ANSWER_SECONDS,
    )


def _look(cursor: Any, settings: dict[str, Any], lines: TextIO) -> str | None:
    """One look: why the reads were ended, or None."""
    threads = _rows(
        cursor,
        "SELECT ID, TIME, STATE, INFO FROM information_schema.PROCESSLIST "
        "WHERE COMMAND IN ('Query', 'Execute', 'Connect', 'Slave_SQL', 'Slave_worker') "
        "AND INFO IS NOT NULL AND ID <> CONNECTION_ID()",
    )
    ours = [
        number
        for number, seconds, state, text in threads
        if settings["mark"] in str(text)
        and int(seconds or 0) >= settings["patience"]
        and str(state).lower() != _WAITS
    ]
    if not ours:
        return None
    reason = _waiter(threads, settings) or _history(cursor, settings)
    if reason is None or _is_over(lines):
        return None
    for number in ours:
        # The connection: a server that is blocked in sending looks at nothing less.
        _rows(cursor, f"KILL {int(number)}")
    return reason


def _waiter(threads: list[tuple[Any, ...]], settings: dict[str, Any]) -> str | None:
    """Whoever waits for a lock of the table, by the first words of the statement."""
    name = re.compile(rf"(?<![\w$`])`?{re.escape(settings['table'])}`?(?![\w$`])", re.IGNORECASE)
    for number, seconds, state, text in threads:
        if str(state).lower() != _WAITS or settings["mark"] in str(text):
            continue
        if name.search(str(text)):
            words = " ".join(re.findall(r"[A-Za-z]+", str(text))[:2]).upper()
            return f"{words} (thread {number}) waits for its table, {int(seconds or 0)} s now"
    return None


def _history(cursor: Any, settings: dict[str, Any]) -> str | None:
    if settings["history_list"] is None:
        return None
    found = _rows(cursor, "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'") or _rows(
        cursor,
        "SELECT NAME, `COUNT` FROM information_schema.INNODB_METRICS "
        "WHERE NAME = 'trx_rseg_history_len'",
    )
    length = int(found[0][1]) if found else 0
    if length <= settings["history_list"]:
        return None
    return f"the history list grew to {length} (back_off.history_list: {settings['history_list']})"


def _rows(cursor: Any, sql: str) -> list[tuple[Any, ...]]:
    """The rows, or none where the server refuses them."""
    try:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]
    except (pymysql.err.OperationalError, pymysql.err.ProgrammingError) as error:
        if error.args and error.args[0] in (2006, 2013):
            raise
        return []
