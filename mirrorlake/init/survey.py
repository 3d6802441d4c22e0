"""What a server shows of its tables, and what is proposed for each: nothing is written."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig
from mirrorlake.config.source_url import SourceUrl
from mirrorlake.errors import SchemaError, SourceError
from mirrorlake.init.by_log import read_log
from mirrorlake.init.choice import Choice, choose_databases, choose_tables
from mirrorlake.init.first_day import read_first_day
from mirrorlake.init.render import ZoneFound, source_name
from mirrorlake.init.sizes import read_table_sizes
from mirrorlake.init.suggest_tables import SuggestedTable, Warned, suggest_contract
from mirrorlake.init.summary import Skipped
from mirrorlake.runtime.extras import is_there
from mirrorlake.sources.mysql.binlog.requirements import LogRequirement
from mirrorlake.sources.mysql.introspection.introspect import (
    SourceTable,
    check_whole,
    read_databases,
    read_listing,
    read_samples,
    read_tables,
    spelled,
)
from mirrorlake.sources.mysql.sessions.connect import rows_of, session
from mirrorlake.sources.mysql.sessions.zones import name_of_zone, read_server_zone
from mirrorlake.sources.mysql.tables import quote

_REASONS: Final = {
    "view": "a view holds no rows of its own",
    "sequence": "a sequence is a counter",
}


@dataclass(frozen=True)
class Survey:
    """A server's tables with a contract proposed for each.

    Attributes:
        name: what the server is called in the contract file.
        skipped: what else the server lists, and why no contract is proposed for it.
        zone: the server's own time zone.
        missing: what the server lacks for its log to be followed; None where it does not say.
    """

    name: str
    url: SourceUrl
    tables: tuple[SuggestedTable, ...]
    skipped: tuple[Skipped, ...]
    zone: ZoneFound
    missing: tuple[LogRequirement, ...] | None


def survey_server(
    url: SourceUrl, name: str | None, choice: Choice, *, hashes: bool | None = None
) -> Survey:
    """Look at the chosen tables of a server; no row's value is kept.

    Args:
        name: what to call the server; by default its database's or host's name.
        hashes: whether hashes are proposed; by default where Spark is installed, which makes them.

    Raises:
        ConfigError: a pattern matches nothing.
        SourceError: the server can't be reached or refuses, or shows this account no table.
    """
    name = name or source_name(url)
    hashes = is_there("pyspark") if hashes is None else hashes
    found = _survey(url.source(name), url, choice, hashes=hashes)
    if not found.tables:
        raise _no_table(found)
    return found


def _no_table(found: Survey) -> SourceError:
    name, parsed, skipped = found.name, found.url, found.skipped
    where = f"database {parsed.database}" if parsed.database else "any database"
    others = f" ({skipped[0].name}: {skipped[0].reason})" if skipped else ""
    return SourceError(
        f"{parsed.user} sees no table of {where} on {parsed.host}:{parsed.port}{others}",
        source=name,
        next_step="Check its name, and GRANT SELECT on it to this account",
    )


def _survey(source: SourceConfig, url: SourceUrl, choice: Choice, *, hashes: bool) -> Survey:
    database = url.database
    with ExitStack() as sessions:
        connection = sessions.enter_context(session(source))
        seen = (spelled(connection, database),) if database else read_databases(connection)
        chosen = choose_databases(choice, seen)
        listed = choose_tables(choice, {d: read_listing(connection, d) for d in chosen})
        server = read_server_zone(connection, source)
        skipped, missing = list(_others(listed)), read_log(connection)
        tables: list[SuggestedTable] = []
        for of_database, names in listed.items():
            wanted = [name for name, kind in names.items() if kind == "table"]
            sizes = _sizes(connection, of_database)
            for found in _read_each(connection, of_database, wanted):
                one = _suggest_table(connection, found, hashes=hashes)
                if isinstance(one, Skipped) and not _answers(connection):
                    # With the server gone this ends it; else the table is looked at once more.
                    connection = sessions.enter_context(session(source))
                    one = _suggest_table(connection, found, hashes=hashes)
                if isinstance(one, SuggestedTable):
                    tables.append(replace(one, bytes=sizes.get(one.table)))
                else:
                    skipped.append(one)
    zone = ZoneFound(name_of_zone(server), server.words)
    return Survey(source.name, url, tuple(tables), tuple(skipped), zone, missing)


def _sizes(connection: Connection[Any], database: str) -> dict[str, int]:
    """What is only shown: where the server can't say it, nothing is lost."""
    try:
        return read_table_sizes(connection, database)
    except SourceError:
        return {}


def _read_each(
    connection: Connection[Any], database: str, names: Sequence[str]
) -> Iterable[SourceTable | Skipped]:
    """The tables of a database; where they can't be read together, each by itself."""
    if not names:
        return ()
    try:
        whole = read_tables(connection, database, foreign_keys=True)
    except SourceError:
        if not _answers(connection):
            raise
        return [_read_one(connection, database, name) for name in names]
    return [table for table in whole if table.name in names]


def _read_one(connection: Connection[Any], database: str, name: str) -> SourceTable | Skipped:
    try:
        # The server may take names for one that differ in case.
        found = read_tables(connection, database, name, foreign_keys=True)
        return next(table for table in found if table.name == name)
    except (SourceError, StopIteration) as error:
        if not _answers(connection):
            raise
        reason = error.message if isinstance(error, SourceError) else "it is gone"
        return Skipped(f"{database}.{name}", "table", f"can't be read: {reason}")


def _answers(connection: Connection[Any]) -> bool:
    """Whether a session is there still: one that was ended may look open."""
    try:
        return bool(rows_of(connection, "SELECT 1"))
    except SourceError:
        return False


def _others(listed: dict[str, dict[str, str]]) -> Iterable[Skipped]:
    for database, names in listed.items():
        for name, kind in names.items():
            if kind != "table":
                yield Skipped(f"{database}.{name}", kind, _REASONS.get(kind, "no table of rows"))


def _suggest_table(
    connection: Connection[Any], table: SourceTable | Skipped, *, hashes: bool
) -> SuggestedTable | Skipped:
    """A contract for one table; a table that can't be read at all stops no other."""
    if isinstance(table, Skipped):
        return table
    name = f"{table.database}.{table.name}"
    if not table.columns:
        # A server lists it so where its files are damaged.
        return Skipped(name, "table", "the server shows no column of it")
    try:
        # An account may see a table that it may write and not read.
        whole = f"{quote(table.database)}.{quote(table.name)}"
        rows_of(connection, f"SELECT 1 FROM {whole} LIMIT 0")  # noqa: S608
        samples = read_samples(connection, table)
        suggested = suggest_contract(table, samples, hashes=hashes)
        first = read_first_day(connection, table, suggested)
        warnings = (*suggested.warnings, *_hidden(connection, table))
        return replace(suggested, warnings=warnings, partitions_from=first)
    except SourceError as error:
        return Skipped(name, "table", f"can't be read: {error.message}")
    except Exception as error:  # noqa: BLE001 – a table that we can't look at stops no other
        # Its words may hold a value.
        where = traceback.extract_tb(error.__traceback__)[-1]
        failed = f"{type(error).__name__} in {Path(where.filename).name}, line {where.lineno}"
        return Skipped(name, "table", f"looking at it failed: {failed}; please report it")


def _hidden(connection: Connection[Any], table: SourceTable) -> Iterator[Warned]:
    try:
        check_whole(connection, table)
    except SchemaError:
        kind = "this account may not read every column: the table will be refused"
        yield Warned(kind, kind)
