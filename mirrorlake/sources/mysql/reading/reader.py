"""One SELECT as Arrow batches, through a session whose settings are ours.

connectorx fetches, decodes and builds Arrow in Rust. What it can't do by itself is done around it:
the session is set by statements that it runs first; every statement carries a *witness*, a column
by which each row shows that those settings hold and which server answers; and its errors and panics
become a `SourceError` without a row's value in it.

Rust prints a panic to standard error before it is raised here. It stays: a descriptor belongs to
the whole process, whose other threads write to it meanwhile. No value is printed, as no statement
of ours selects what could not be converted: dates, times, decimals and bits come as texts or
numbers (`types`), texts in UTF-8, and a session without that setting is refused before it is asked
for a row.

Source: MySQL 8.0 manual, 5.1.8 "Server System Variables"; connectorx, ``pre_execution_query``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

# The pool of its connections prints each attempt that fails: how they ended is in our one error.
os.environ.setdefault("RUST_LOG", "r2d2=off")

import connectorx
import pyarrow as pa

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import MirrorlakeError, SourceError, TableLocked
from mirrorlake.sources.mysql.reading.route import Gate, Heed, Valve, open_route
from mirrorlake.sources.mysql.sessions.connect import (
    LOCKED,
    LOCKED_STEP,
    STOPPED,
    SourcePosition,
    is_retryable,
    session_statements,
    step_of,
    without_secret,
)
from mirrorlake.sources.mysql.sessions.variables import EVERY_ROW, MARK, REFUSE, REFUSED, SETTINGS
from mirrorlake.sources.mysql.tables import quoted_text

BATCH_ROWS = 16_384
WITNESS = "w"
"""The column in which each row shows that its session is ours; see `witness`."""

InSnapshot: TypeAlias = "Callable[[str], tuple[int | None, ...]]"
"""Runs a statement in a snapshot's session; its row of numbers, if it has one."""
OnSnapshot: TypeAlias = "Callable[[InSnapshot], None]"
"""Called when a snapshot was opened."""

_SERVERS_WORDS = re.compile(r"(MySqlError|DriverError|IoError|CodecError) \{ (.*?) \}", re.DOTALL)
# The reader's own words for a session that it did not get within its 30 seconds, for no reason that
# anybody told it: a machine, or a server, that stood still for so long.
_NO_SESSION = "timed out waiting for connection"


@dataclass
class Question:
    """One row of numbers that is queried in the state from which rows are read.

    ``answer`` is filled in before the first row comes; ``after``: when the last one has come.
    """

    statement: str
    answer: tuple[int | None, ...] = ()
    after: bool = False


def witness(server: SourcePosition, count: str = "0", session: int | None = None) -> str:
    """SQL of a number that is ``count`` in a session of ours on that server, and -1 in any other.

    Proxies, ``init_connect``, ``skip-character-set-client-handshake`` and a balancer behind one
    name can each give a session that is not what was requested, and would change values or leave
    rows out silently. What is compared row by row costs under a microsecond in all.

    Args:
        session: the server's id of the one session that it must be.
    """
    holds = [f"{MARK} = 1", *(s.condition for s in SETTINGS if s.name in EVERY_ROW)]
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
    opened: OnSnapshot | None = None,
) -> Iterator[pa.RecordBatch]:
    """The statement's rows, in the order in which they come; at least one batch, maybe empty. An
    empty one is the last that comes; a question that is put after the rows is put then.

    Args:
        statement: or what makes it of the id of the question's session, see `witness`.

    See `read_in_turn`.
    """

    def one(session: int | None) -> Iterator[tuple[str, int]]:
        yield statement if isinstance(statement, str) else statement(session), batch_rows

    empty: pa.RecordBatch | None = None
    for batch in read_in_turn(
        source,
        database,
        one,
        before,
        table=table,
        near=near,
        question=question,
        heed=heed,
        opened=opened,
    ):
        if batch is not None:
            empty = batch.slice(0, 0)
            yield batch
        elif empty is not None and question is not None and question.after:
            yield empty


def read_in_turn(
    source: SourceConfig,
    database: str,
    statements: Callable[[int | None], Iterator[tuple[str, int]]],
    before: Sequence[str] = (),
    *,
    table: str | None = None,
    near: bool = False,
    question: Question | None = None,
    heed: Heed | None = None,
    opened: OnSnapshot | None = None,
) -> Iterator[pa.RecordBatch | None]:
    """The rows of statements, in the order in which they come: of each at least one batch, maybe
    empty, and None at its end. The next is asked for when that was taken. With a question all are
    of one consistent snapshot (of InnoDB's tables); one that is put after the rows is put when the
    last None was taken.

    One statement is one consistent read (on InnoDB). The next batch is fetched meanwhile. While it
    waits for the first row no other Python thread runs, but where the source has a rate.

    Args:
        statements: they, by the id of the question's session (see `witness`), each with how many
            rows are held at once; without a question only one.
        question: is run in the consistent snapshot (of InnoDB's tables) that is read.
        before: statements that the session runs first, after ours.
        table: what the rows are of, for errors.
        near: whether rows are to come no faster than they are taken, but for some megabytes: else
            what is not taken yet is held in memory, however much it is. It costs a process.
        heed: called now and then, while a read at a rate waits too; raises to give the read up.
        opened: called once the snapshot is there, with what runs a statement in its session: its
            row of numbers, if it has one. It may open the snapshot again.

    Raises:
        SourceError: the server refused it, was lost, or gave what the reader can't take.
    """
    try:
        opening = session_statements(source) if question else None
        first_asked = question.statement if question and not question.after else None
        with open_route(source, database, near=near, before=opening, question=first_asked) as route:
            if question is not None and route.answer is not None:
                question.answer = route.answer
            if opened is not None:
                opened(partial(route.ask, heed=heed or _heedless))
            # A braked reader takes little at a time: the server must not take it for a lost one.
            patient = ("SET SESSION net_write_timeout = 3600",) if route.brake else ()
            first = [*session_statements(source), REFUSE, *patient, *before]
            for text, batch_rows in statements(route.session):
                if route.brake:
                    route.brake.begin()
                stream = _open(route.url, text, batch_rows, first)
                yield from _batches(stream, batch_rows, route.brake, heed or _heedless)
                del stream  # with its session
                yield None
            if question is not None and question.after:
                question.answer = route.ask(question.statement, heed or _heedless)
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, MirrorlakeError):
        raise
    except BaseException as error:  # noqa: BLE001 - connectorx's Rust panics are such
        raise _failed(error, source, database, table) from None


def _heedless() -> None:
    pass


def _open(url: str, statement: str, batch_rows: int, first: list[str]) -> Any:
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
        with brake.awaited(rows, heed) if brake else nullcontext():
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
    told = without_secret(str(error), source)
    found = _SERVERS_WORDS.search(told)
    is_late = not found and told.startswith(_NO_SESSION)
    own = "no session for the rows within 30 s" if is_late else _NOT_TAKEN
    words = found[2].strip() if found else own
    code = re.match(r"ERROR (\d+)", words) if found and found[1] == "MySqlError" else None
    if code and int(code[1]) in STOPPED:
        return _stopped(source, table or f"of database {database}")
    if code and int(code[1]) == REFUSED:
        return other_session(source)
    kind = TableLocked if code is not None and int(code[1]) == LOCKED else SourceError
    # A column that was there when the read was planned: the table was altered since.
    if code:
        passes = is_retryable(int(code[1])) or int(code[1]) == _NO_COLUMN
    else:
        passes = bool(found) or is_late
    stays = f"{_STAYS} {step_of(int(code[1]))}".strip() if code else _STAYS
    held = LOCKED_STEP if kind is TableLocked else "Nothing of this load is visible: sync again"
    return kind(
        f"reading database {database} of source {source.name} failed: {words}",
        source=source.name,
        table=table,
        next_step=held if passes else stays,
        retryable=passes,
    )


_NO_COLUMN = 1054
_NOT_TAKEN = "the reader met a value or an answer that it can't take"
_STAYS = "Nothing of this load is visible, and no sync reads the table until that is changed."


def other_session(source: SourceConfig) -> SourceError:
    """The error of a session that is not what was requested, see `witness`."""
    return SourceError(
        f"source {source.name}: the reader's session has other settings than requested: "
        "another server answered, or something between us and MySQL drops its settings",
        source=source.name,
        next_step="Point the contract at the server itself",
    )


def _stopped(source: SourceConfig, table: str) -> SourceError:
    if source.statement_seconds is None:
        took, step = "the server's own limit allows", "Set `statement_seconds` of the source"
    else:
        took = f"`statement_seconds` of source {source.name} allows ({source.statement_seconds} s)"
        step = "Raise `statement_seconds`"
    return SourceError(
        f"reading table {table} took longer than {took}, and the server stopped it",
        source=source.name,
        table=table,
        next_step=f"{step}, or have less read at once: a first load is cut where "
        "the table has a key of integers, texts, dates or bytes",
    )
