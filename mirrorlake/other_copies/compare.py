"""A table of MySQL's and another tool's copy of it, compared: every row by its key, every column
under what its two types mean. Nothing is written but to a folder that is gone afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import ConfigError, LakeError, MirrorlakeError, ProofError
from mirrorlake.other_copies.database import open_database, working_folder
from mirrorlake.other_copies.differences import DifferingRows
from mirrorlake.other_copies.multisets import compare_multisets
from mirrorlake.other_copies.our_rows import OurRows, columns_of, read_ours
from mirrorlake.other_copies.paired_columns import PairedColumn, PairedColumns
from mirrorlake.other_copies.pairings.choose import pair
from mirrorlake.other_copies.pairings.pairing import TheirType
from mirrorlake.other_copies.their_columns import ColumnMap, literal, map_columns, quoted
from mirrorlake.other_copies.theirs.table import TheirRows, TheirTable
from mirrorlake.other_copies.verdict import ComparedColumn, ComparedCopy, CopyDifference
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.tables import SourceTable


@dataclass(frozen=True)
class CopyTerms:
    """How two tables are compared.

    Attributes:
        columns: the copy's name → MySQL's, where they are not found by name.
        key: MySQL's columns by which rows are paired; none: its primary key, or a unique one.
        left_out: MySQL's columns that are not compared.
        where: a condition, in DuckDB's SQL, on MySQL's names.
        show_values: whether values of rows that differ are kept in the result.
    """

    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    key: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    where: str = ""
    show_values: bool = False


def compare_copy(
    source: SourceConfig, table: SourceTable, theirs: TheirTable, terms: CopyTerms
) -> ComparedCopy:
    """Read both sides once, and compare them.

    Raises:
        ConfigError: no column is in both, or the key is not in the copy or keeps no row apart.
        SourceError: MySQL can't be read.
        LakeError: the copy can't be read.
        ProofError: there is no room to compare them.
    """
    began = time.monotonic()
    name = f"{table.database}.{table.name}"
    with working_folder() as folder, open_database(folder) as database:
        their = theirs.open(database, folder)
        readable, unreadable = columns_of(table)
        out, key = _spelt(table, terms.left_out), _spelt(table, terms.key)
        asked = ([one for one in names if one not in unreadable] for names in (out, key))
        found = map_columns(readable, their.columns, terms.columns, *asked)
        key = key or table.primary_key()
        _refuse_unpaired(name, key, found, out)
        paired, unpaired = _paired(found, their)
        _refuse_key(name, key, paired)
        ours = read_ours(source, table, [one.ours for one in paired.columns], folder)
        with _translated(name, terms):
            _make_sides(database, ours, their, found, paired, terms)
            paired.choose_ways(database)
            counts = _Counts.of(database, found, their)
            if key:
                rows = DifferingRows(database, paired, key, terms.show_values)
                differences, equal = rows.find(counts.ours)
            else:
                differences, equal = compare_multisets(database, paired)
        _refuse_changed(their, theirs)
    gone = [CopyDifference("column_missing", one, counts.ours) for one in found.missing]
    return ComparedCopy(
        table=name,
        place=theirs.place,
        version=their.version,
        server=ours.seen.server,
        position=ours.seen.position,
        read_at=f"{ours.seen.clock.isoformat(timespec='microseconds')}Z",
        key=key,
        rows=(counts.ours, counts.theirs),
        equal_rows=equal,
        columns=paired.described(),
        differences=(*gone, *differences),
        left_out={**unreadable, **unpaired, **dict.fromkeys(out, "by --leave-out")},
        by_request=out,
        surplus={**found.tools, **dict.fromkeys(found.surplus, "")},
        originals=found.originals,
        marked_deleted=counts.marked,
        where=terms.where,
        outside=counts.outside,
        seconds=round(time.monotonic() - began, 1),
    )


def _refuse_changed(their: TheirRows, theirs: TheirTable) -> None:
    if not their.is_same():
        raise LakeError(
            f"{theirs.place} was changed while it was read",
            next_step="Compare it again once it stands still, or a copy of it",
            retryable=True,
        )


def _spelt(table: SourceTable, names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns as MySQL spells them; one that it has not stays as it is."""
    known = {column.name.lower(): column.name for column in table.columns}
    return tuple(known.get(name.lower(), name) for name in names)


def _refuse_unpaired(
    name: str, key: Sequence[str], found: ColumnMap, left_out: Sequence[str]
) -> None:
    """See that the copy has the columns by which rows are to be paired."""
    if lost := [one for one in key if one in left_out]:
        raise ConfigError(
            f"{', '.join(lost)} is left out (--leave-out), and rows are paired by it",
            table=name,
            next_step="Compare it, or name another key (--key)",
        )
    there = {one.column.name for one, _ in found.pairs}
    if lost := [one for one in key if one not in there]:
        raise ConfigError(
            f"the copy of {name} has no {', '.join(lost)}, by which its rows would be paired",
            table=name,
            next_step=f"Say which column it is (--map theirs={lost[0]}), or name another key "
            "(--key)",
        )


def _paired(found: ColumnMap, their: TheirRows) -> tuple[PairedColumns, dict[str, str]]:
    """The columns that can be compared, and why others can't."""
    paired = PairedColumns(copy_has_originals=found.originals)
    unpaired: dict[str, str] = {}
    for ours, name in found.pairs:
        kind = TheirType.of(their.columns[name])
        pairing = pair(ours.column, kind, len(paired.columns))
        written = their.written.get(name, kind.name)
        if pairing is None:
            mine = ours.column.column_type
            unpaired[ours.column.name] = f"{mine} can't be compared with {written}"
        else:
            if kind.kind == "text" and "numeric" in written.lower():
                pairing = replace(pairing, notes=())  # DuckDB has no such numbers: read as text
            paired.columns.append(PairedColumn(ours, name, kind, pairing, written))
    return paired, unpaired


def _refuse_key(name: str, key: Sequence[str], paired: PairedColumns) -> None:
    if not paired.columns:
        raise ConfigError(
            f"no column of {name} has a type that can be compared with the copy's",
            next_step="See `mirrorlake check --json`, or compare a view of the copy",
        )
    if lost := [one for one in key if one not in paired.names]:
        raise ConfigError(
            f"{name}: the key's {', '.join(lost)} has a type in the copy that can't be compared "
            "with MySQL's",
            next_step="Name another key (--key)",
        )


def _make_sides(
    database: Any,
    ours: OurRows,
    their: TheirRows,
    found: ColumnMap,
    paired: PairedColumns,
    terms: CopyTerms,
) -> None:
    """Views `ours` and `theirs` over both: values in c0, c1 …, originals in x0, x1 …, and in w
    whether a row is one that is to be compared."""
    if terms.where:
        _refuse_more(database, terms.where)
    condition = f"coalesce(({terms.where}), false)" if terms.where else "true"
    mine = f"read_parquet({literal(str(ours.path))})"
    cells = paired.cells([one.ours.column.name for one in paired.columns], ours.originals)
    _create(database, "ours", f"SELECT {cells}, {condition} AS w FROM {mine}", terms)  # noqa: S608
    deleted = " OR ".join(f"coalesce({sql}, false)" for sql in found.deleted.values()) or "false"
    named = [f"{quoted(one.theirs)} AS {quoted(one.ours.column.name)}" for one in paired.columns]
    if found.originals:
        named.append(quoted(ORIGINAL))
    inner = f"SELECT {', '.join(named)} FROM {their.relation} WHERE NOT ({deleted})"  # noqa: S608
    cells = paired.cells([one.ours.column.name for one in paired.columns], found.originals)
    _create(database, "theirs", f"SELECT {cells}, {condition} AS w FROM ({inner})", terms)  # noqa: S608


def _refuse_more(database: Any, where: str) -> None:
    """See that a text is a condition by itself, which no brackets around it change."""
    try:
        statements = database.extract_statements(f"SELECT 1 WHERE {where}")
    except duckdb.Error as error:
        raise ConfigError(
            f"--where {where!r} is no condition: {str(error).splitlines()[0]}",
            next_step="Write one condition in DuckDB's SQL: names of columns in double quotes",
        ) from error
    if len(statements) != 1:
        raise ConfigError(
            f"--where {where!r} is more than a condition", next_step="Write one condition"
        )


def _create(database: Any, name: str, select: str, terms: CopyTerms) -> None:
    try:
        database.execute(f"CREATE TEMP VIEW {name} AS {select}")
    except duckdb.Error as error:
        if not terms.where:
            raise
        side = "MySQL's rows" if name == "ours" else "the copy's rows"
        raise ConfigError(
            f"--where can't be asked of {side}: {str(error).splitlines()[0]}",
            next_step="Write it in DuckDB's SQL, with MySQL's names of columns in double quotes",
        ) from error


@dataclass(frozen=True)
class _Counts:
    """How many rows there are."""

    ours: int
    theirs: int
    outside: int
    marked: int

    @classmethod
    def of(cls, database: Any, found: ColumnMap, their: TheirRows) -> _Counts:
        count = "SELECT count(*) FILTER (w), count(*) FROM"
        [(ours, all_ours)] = database.execute(f"{count} ours").fetchall()
        [(theirs, all_theirs)] = database.execute(f"{count} theirs").fetchall()
        marked = 0
        if found.deleted:
            [(total,)] = database.execute(f"SELECT count(*) FROM {their.relation}").fetchall()  # noqa: S608
            marked = total - all_theirs
        return cls(ours, theirs, all_ours - ours, marked)


@contextmanager
def _translated(name: str, terms: CopyTerms) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise _not_compared(name, terms, error) from error


def _not_compared(name: str, terms: CopyTerms, error: Exception) -> MirrorlakeError:
    # Its own words may hold values.
    room = isinstance(error, duckdb.OutOfMemoryException | duckdb.IOException)
    if terms.where and not room:
        return ConfigError(
            f"--where {terms.where!r} can't be asked of each row: DuckDB raised "
            f"{type(error).__name__}",
            table=name,
            next_step="Compare each column with a value of its type, in DuckDB's SQL",
        )
    return ProofError(
        f"{name} could not be compared: DuckDB raised {type(error).__name__}",
        table=name,
        next_step="See that the cache folder (MIRRORLAKE_CACHE) has room for both tables, and that "
        "the copy's files are whole"
        if room
        else "Leave columns out (--leave-out) to find the one that it is about, and report it",
    )


__all__ = ["ComparedColumn", "CopyTerms", "compare_copy"]
