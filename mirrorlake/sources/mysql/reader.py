"""One SELECT as Arrow batches, through a session whose settings are ours.

connectorx fetches, decodes and builds Arrow in Rust. What it can't do by itself is done around it:
the session is set by statements that it runs first; every statement carries a *witness*, a column
by which each row shows that those settings hold and which server answers; and its errors and panics
become a `SourceError` without a row's value in it.

Source: MySQL 8.0 manual, 5.1.8 "Server System Variables"; connectorx, ``pre_execution_query``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import connectorx
import pyarrow as pa

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import MirrorlakeError, SourceError
from mirrorlake.sources.mysql.connect import (
    SESSION,
    STOPPED,
    SourcePosition,
    is_retryable,
    quoted_text,
    session_statements,
    step_of,
    without_secret,
)
from mirrorlake.sources.mysql.route import Gate, Heed, Valve, open_route

BATCH_ROWS = 16_384
WITNESS = "w"
"""The column in which each row shows that its session is ours; see `witness`."""

_SERVERS_WORDS = re.compile(r"(MySqlError|DriverError|IoError|CodecError) \{ (.*?) \}", re.DOTALL)


@dataclass
class Question:
    """One row of numbers that is queried in the state from which rows are then read.

    ``answer`` is filled in before the first row comes.
    """

    statement: str
    answer: tuple[int | None, ...] = ()


def witness(server: SourcePosition, count: str = "0", session: int | None = None) -> str:
    """SQL of a number that is ``count`` in a session of ours on that server, and -1 in any other.

    Proxies, ``init_connect``, ``skip-character-set-client-handshake`` and a balancer behind one
    name can each give a session that is not what was requested, and would change values silently.
    The conditions are constants to the server: they cost nothing per row.

    Args:
        session: the server's id of the one session that it must be.
    """
    # MariaDB may read '' as NULL even after sql_mode was emptied (EMPTY_STRING_IS_NULL).
    holds = [
        f"@@session.{name} = {quoted_text(value)}" if value else f"LENGTH(@@session.{name}) = 0"
        for name, value in SESSION.items()
    ]
    holds.append(f"{server.identified_by} = {quoted_text(server.server)}")
    if session is not None:
        holds.append(f"CONNECTION_ID() = {session}")
    return f"IF({' AND '.join(holds)}, {count}, -1)"


def read_batches(
    source: SourceConfig,
    database: str,
    statement: str | Callable[[int | None], str],
    batch_rows: int = BATCH_ROWS,
    before: Sequence[str] = (),
    *,
    table: str | None = None,
    near: bool = False,
    question: Question | None = None,
    heed: Heed | None = None,
) -> Iterator[pa.RecordBatch]:
    """The statement's rows, in the order in which they come; at least one batch, maybe empty.

    One statement is one consistent read (on InnoDB). The next batch is fetched while the last one
    is looked at. While it waits for the server's first row no other Python thread runs; it is not
    so where the source has a rate: there all waiting is done here.

    Args:
        statement: or what makes it of the id of the question's session, see `witness`.
        question: is run first, in the consistent snapshot (of InnoDB's tables) that is then read.
        batch_rows: how many rows are held at once.
        before: statements that the session runs first, after ours.
        table: what the rows are of, for errors.
        near: whether rows are to come no faster than they are taken, but for some megabytes: else
            what is not taken yet is held in memory, however much it is. It costs a process.
        heed: called now and then, while a read at a rate waits too; raises to give the read up.

    Raises:
        SourceError: the server refused it, was lost, or gave what the reader can't take.
    """
    try:
        opening = (*session_statements(source), question.statement) if question else ()
        with open_route(source, database, near=near, before=opening) as route:
            if question is not None and route.answer is not None:
                question.answer = route.answer
            text = statement if isinstance(statement, str) else statement(route.session)
            # A reader that takes little at a time is none that was lost.
            patient = ("SET SESSION net_write_timeout = 3600",) if route.brake else ()
            first = [*session_statements(source), *patient, *before]
            stream = _open(route.url, text, batch_rows, first)
            yield from _batches(stream, batch_rows, route.brake, heed or _heedless)
    except BaseException as error:
        # connectorx raises RuntimeError, and its Rust panics are BaseExceptions.
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | MemoryError):
            raise
        if isinstance(error, MirrorlakeError):
            raise
        raise _failed(error, source, database, table) from None


def _heedless() -> None:
    pass


def _open(url: str, statement: str, batch_rows: int, first: list[str]) -> Any:
    with _quiet():
        # The binary protocol: the text of a FLOAT is rounded by the server.
        return connectorx.read_sql(
            url,
            statement,
            return_type="arrow_stream",
            protocol="binary",
            batch_size=batch_rows,
            pre_execution_query=first,
        )


def _batches(
    stream: Any, batch_rows: int, brake: Gate | Valve | None, heed: Heed
) -> Iterator[pa.RecordBatch]:
    seen = 0
    while True:
        heed()
        rows = (seen + 1) * batch_rows
        with brake.awaited(rows, heed) if brake else nullcontext(), _quiet():
            batch = next(stream, None)
        if batch is None:
            break
        seen += 1
        yield batch
    if not seen:
        yield pa.RecordBatch.from_pylist([], schema=stream.schema)


def _failed(
    error: BaseException, source: SourceConfig, database: str, table: str | None
) -> SourceError:
    """The reader's error in our words: the server's own, or none; a row's value is never in it."""
    found = _SERVERS_WORDS.search(without_secret(str(error), source))
    words = found[2].strip() if found else "the reader met a value or an answer that it can't take"
    code = re.match(r"ERROR (\d+)", words) if found and found[1] == "MySqlError" else None
    if code and int(code[1]) in STOPPED:
        return _stopped(source, table or f"of database {database}")
    passes = is_retryable(int(code[1])) if code else found is not None
    stays = f"{_STAYS} {step_of(int(code[1]))}".strip() if code else _STAYS
    return SourceError(
        f"reading database {database} of source {source.name} failed: {words}",
        source=source.name,
        table=table,
        next_step="Nothing of this load is visible: sync again" if passes else stays,
        retryable=passes,
    )


_STAYS = "Nothing of this load is visible, and no sync reads the table until that is changed."


def _stopped(source: SourceConfig, table: str) -> SourceError:
    return SourceError(
        f"reading table {table} took longer than `statement_seconds` of source {source.name} "
        f"allows ({source.statement_seconds} s), and the server stopped it",
        source=source.name,
        table=table,
        next_step="Raise `statement_seconds`, or have less read at once: a first load is cut where "
        "the table has a key of integers, texts, dates or bytes",
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Take the standard error away from Rust, which prints every panic before it is raised here.

    No other Python thread can write meanwhile: the reader holds the interpreter's lock.
    """
    kept: int | None = None
    with suppress(OSError):
        kept = os.dup(2)
    if kept is None:
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
