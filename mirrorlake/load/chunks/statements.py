"""What one chunk's task must know, and the statements that it sends to MySQL."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa
from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.load.row_hashes.delta import CopyPlan
from mirrorlake.proof.sides.server_hashes import HASH, ServerHashes
from mirrorlake.schema.versions import Exact
from mirrorlake.sources.mysql.introspection.introspect import read_sizes
from mirrorlake.sources.mysql.reading.lock_watch import mark
from mirrorlake.sources.mysql.reading.reader import BATCH_ROWS, WITNESS, witness
from mirrorlake.sources.mysql.sessions.connect import SourcePosition, rows_of
from mirrorlake.sources.mysql.tables import quote


class Equality(NamedTuple):
    """A column of raw by which the server's own equality is kept; never NULL.

    Attributes:
        name: ``_mirror_key`` or ``_mirror_token``.
        of: the columns of MySQL that it is computed from, all of them NOT NULL.
        sql: its bytes.
    """

    name: str
    of: tuple[str, ...]
    sql: str


@dataclass(frozen=True)
class ChunkPlan:
    """Everything that one chunk's task must know. It holds the source's password: never log it.

    Attributes:
        number: the chunk's number in its load, in its files' names.
        where: the SQL condition of the chunk, '' for the whole table.
        day_column: the column whose date is the raw day, or None: then every row gets ``day``.
        cursor: the time column to compare with the source's clock, or None.
        server: the server that must answer, '' if any may.
        iceberg: the raw table's schema as Iceberg's JSON: by which files' metrics are recorded.
        retry, task: which reading of the chunk this is: files of two readings never share a name.
        batch_rows: how many rows are held at once while they are read.
        near: whether the reader is kept near the files, if the table is large (`measured`): what it
            is ahead is held in memory.
        widest: columns, in SQL, that may make a row large, if `measured` shall say how large rows
            are.
        digest: SQL of a row's digest in MySQL, by the proof's forms: the server reports the chunk's
            rows and digest, in the very state that is read; None: it does not.
        hashes: how each row comes with the server's hash of it, in one pass; then there is no
            ``digest``.
        equality_columns: columns of raw by which the server's own equality is kept.
        copy: how a full copy is written, if it leaves a row index; else None.
    """

    source: SourceConfig
    database: str
    table: str
    columns: tuple[Exact, ...]
    schema: pa.Schema
    location: str
    storage: dict[str, str]
    load_id: str
    attempt: int
    seq: int
    number: int
    where: str
    day: date
    day_column: str | None
    cursor: str | None
    server: str
    equality_columns: tuple[Equality, ...] = ()
    iceberg: str | None = None
    digest: str | None = None
    hashes: ServerHashes | None = None
    batch_rows: int = BATCH_ROWS
    near: bool = False
    widest: tuple[str, ...] = ()
    retry: int = 0
    task: str = ""
    copy: CopyPlan | None = None

    @property
    def name(self) -> str:
        """``source.database.table``."""
        return f"{self.source.name}.{self.database}.{self.table}"

    @property
    def stem(self) -> str:
        """The name of its files: load and attempt, the chunk's number, and the reading."""
        again = f"r{self.retry}" if self.retry else ""
        return f"{self.load_id}-{self.attempt}-{self.number:05d}{again}{self.task}"


def digest_statement(plan: ChunkPlan) -> str:
    """How many rows a chunk has, and the sum of their digests, as the server says."""
    return _statement(plan, f"COUNT(*), SUM({plan.digest})")


def keys_statement(plan: ChunkPlan, hashes: ServerHashes) -> str:
    """How many rows a chunk has, and the sum of their keys' numbers, as the server says."""
    return _statement(plan, f"COUNT(*), SUM({hashes.of_key})")


def count_statement(plan: ChunkPlan) -> str:
    """How many rows a chunk has, as the server says."""
    return _statement(plan, "COUNT(*)")


def held_statement(plan: ChunkPlan, key: str) -> str:
    """`digest_statement`, with the lowest and the highest key of the chunk."""
    name = next(_named(exact) for exact in plan.columns if exact.name == key)
    return _statement(plan, f"COUNT(*), SUM({plan.digest}), MIN({name}), MAX({name})")


def select_statement(plan: ChunkPlan, server: SourcePosition, session: int | None = None) -> str:
    """The chunk's one SELECT. Columns are named by number: names may be anything."""
    return _statement(plan, ", ".join(select_list(plan, server, session)))


def select_list(plan: ChunkPlan, server: SourcePosition, session: int | None = None) -> list[str]:
    """What a chunk's SELECT selects."""
    parts: list[str] = []
    for number, exact in enumerate(plan.columns):
        parts.append(f"{exact.select} AS c{number}")
        if exact.original is not None:
            parts.append(f"{exact.original} AS o{number}")
    parts += [f"{kept.sql} AS k{number}" for number, kept in enumerate(plan.equality_columns)]
    if plan.hashes is not None:
        parts.append(f"{plan.hashes.of_row} AS {HASH}")
    filled = _balanced([f"({_named(e)} IS NOT NULL)" for e in projected(plan)])
    parts.append(f"{witness(server, filled or '0', session)} AS {WITNESS}")
    return parts


def _balanced(terms: Sequence[str]) -> str:
    """SQL of a sum; in halves, as a server evaluates one sum inside of another on its stack."""
    if len(terms) <= 2:
        return " + ".join(terms)
    middle = len(terms) // 2
    return f"({_balanced(terms[:middle])}) + ({_balanced(terms[middle:])})"


def is_projected(exact: Exact) -> bool:
    """Whether a column is not selected as itself: a function may give NULL for a value that it
    can't take (a result over ``max_allowed_packet``), with a warning that nobody sees."""
    return exact.select != _named(exact) and not exact.derived


def _named(exact: Exact) -> str:
    """The column itself, in a statement."""
    return quote(exact.source or exact.name)


def projected(plan: ChunkPlan) -> list[Exact]:
    """The columns of which each row counts how many have a value."""
    return [e for e in plan.columns if is_projected(e)]


# --- what is held at once -------------------------------------------------------------------------

_HELD_BYTES = 16 * 2**20
PILED_BYTES = 64 * 2**20
"""A table of no more may be held as a whole; to start a process that prevents it takes 0.2 s."""
# Values beyond about half a page of the server lie on pages of their own: to ask for their lengths
# would be to read them.
_SCANNED_ROW_BYTES = 4_096


def measured(connection: Connection[Any], plan: ChunkPlan) -> ChunkPlan:
    """The plan with as many rows a batch as memory allows, where rows that may be large are not;
    and without the process that keeps the reader near, where the whole table may be held at once.

    A type says what a value may be: 4 GB of a JSON document. The server knows the longest of the
    chunk, for a fraction of what reading costs, where its rows are small on average. A larger row
    that is written before the read begins costs memory, and changes nothing else.

    Raises:
        SourceError: MySQL was lost or refused.
    """
    if not plan.near and not plan.widest:
        return plan
    whole, average = read_sizes(connection, plan.database, plan.table)
    plan = dataclasses.replace(plan, near=plan.near and whole > PILED_BYTES)
    if not plan.widest or average > _SCANNED_ROW_BYTES:
        return plan
    [(longest,)] = rows_of(connection, _widest_statement(plan))
    rows = _HELD_BYTES // max(int(longest or 0) + average, 1)
    if rows <= plan.batch_rows:
        return plan
    return dataclasses.replace(plan, batch_rows=min(rows, BATCH_ROWS))


def _widest_statement(plan: ChunkPlan) -> str:
    longest = " + ".join(f"COALESCE(LENGTH({name}), 0)" for name in plan.widest)
    return _statement(plan, f"MAX({longest})")


def _statement(plan: ChunkPlan, columns: str) -> str:
    where = f" WHERE {plan.where}" if plan.where else ""
    table = f"{quote(plan.database)}.{quote(plan.table)}"
    return f"SELECT /* {mark(plan.load_id)} */ {columns} FROM {table}{where}"  # noqa: S608
