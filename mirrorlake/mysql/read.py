"""One SELECT as Arrow batches, through a session whose settings are ours.

connectorx fetches, decodes and builds Arrow in Rust. What it can't do by itself is done around it:
the session is set by statements that it runs first; every statement carries a *witness*, a column
by which each row tells that those settings hold and which server answers; and its errors and panics
become a `SourceError` without a row's value in it.

Source: MySQL 8.0 manual, 5.1.8 "Server System Variables"; connectorx, ``pre_execution_query``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import connectorx
import pyarrow as pa

from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.mysql.connect import (
    SESSION,
    SourcePosition,
    is_retryable,
    quoted_text,
    reader_url,
    session_statements,
    without_secret,
)

BATCH_ROWS = 16_384
WITNESS = "w"
"""The column in which each row tells that its session is ours; see `witness`."""

_SERVERS_WORDS = re.compile(r"(MySqlError|DriverError|IoError|CodecError) \{ (.*?) \}", re.DOTALL)


def witness(server: SourcePosition, count: str = "0") -> str:
    """SQL of a number that is ``count`` in a session of ours on that server, and -1 in any other.

    Proxies, ``init_connect``, ``skip-character-set-client-handshake`` and a balancer behind one
    name can each give a session that is not what was asked for, and would change values silently.
    The conditions are constants to the server: they cost nothing per row.
    """
    # MariaDB may read '' as NULL even after sql_mode was emptied (EMPTY_STRING_IS_NULL).
    holds = [
        f"@@session.{name} = {quoted_text(value)}" if value else f"LENGTH(@@session.{name}) = 0"
        for name, value in SESSION.items()
    ]
    holds.append(f"{server.identified_by} = {quoted_text(server.server)}")
    return f"IF({' AND '.join(holds)}, {count}, -1)"


def read_batches(
    source: SourceConfig,
    database: str,
    statement: str,
    batch_rows: int = BATCH_ROWS,
    before: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """The statement's rows, in the order in which they come; at least one batch, maybe empty.

    One statement is one consistent read (on InnoDB). The next batch is fetched while the last one
    is looked at. While it waits for the server's first row no other Python thread runs.

    Args:
        batch_rows: how many rows are held at once.
        before: statements that the session runs first, after ours.

    Raises:
        SourceError: the server refused it, was lost, or gave what the reader can't take.
    """
    try:
        with reader_url(source, database) as url:
            yield from _batches(url, statement, batch_rows, before)
    except BaseException as error:
        # connectorx raises RuntimeError, and its Rust panics are BaseExceptions.
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | MemoryError):
            raise
        if isinstance(error, SourceError):
            raise
        raise _failed(error, source, database) from None


def _batches(
    url: str, statement: str, batch_rows: int, before: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    with _quiet():
        # The binary protocol: the text of a FLOAT is rounded by the server.
        stream: Any = connectorx.read_sql(
            url,
            statement,
            return_type="arrow_stream",
            protocol="binary",
            batch_size=batch_rows,
            pre_execution_query=[*session_statements(), *before],
        )
    seen = False
    while True:
        with _quiet():
            batch = next(stream, None)
        if batch is None:
            break
        seen = True
        yield batch
    if not seen:
        yield pa.RecordBatch.from_pylist([], schema=stream.schema)


def _failed(error: BaseException, source: SourceConfig, database: str) -> SourceError:
    """The reader's error in our words: the server's own, or none; a row's value is never in it."""
    found = _SERVERS_WORDS.search(without_secret(str(error), source))
    words = found[2].strip() if found else "the reader met a value or an answer that it can't take"
    code = re.match(r"ERROR (\d+)", words) if found and found[1] == "MySqlError" else None
    return SourceError(
        f"reading database {database} of source {source.name} failed: {words}",
        source=source.name,
        next_step="Nothing of this load is visible: sync again",
        retryable=is_retryable(int(code[1])) if code else found is not None,
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
