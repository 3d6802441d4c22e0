"""``mirrorlake init``: ask a server for its tables and write the first contract."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr
from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TlsConfig, config_schema, load_config
from mirrorlake.config.source_url import SourceUrl, parse_source_url
from mirrorlake.errors import ConfigError, SchemaError, SourceError
from mirrorlake.init.by_log import LogProposal, propose, read_log
from mirrorlake.init.choice import Choice, choose_databases, choose_tables
from mirrorlake.init.first_day import read_first_day
from mirrorlake.init.render import HOME, ZoneFound, password_variable, render_contract, source_name
from mirrorlake.init.suggest_tables import SuggestedTable, Warned, suggest_contract
from mirrorlake.init.summary import (
    IndexWanted,
    Skipped,
    WarningKind,
    count_modes,
    indexes_wanted,
    nullable_times,
    tables_of_many,
    warning_kinds,
)
from mirrorlake.runtime.extras import is_there
from mirrorlake.sources.mysql.binlog.requirements import LogRequirement
from mirrorlake.sources.mysql.introspection.introspect import (
    SourceTable,
    check_whole,
    read_databases,
    read_listing,
    read_samples,
    read_tables,
)
from mirrorlake.sources.mysql.sessions.connect import rows_of, session
from mirrorlake.sources.mysql.sessions.zones import name_of_zone, read_server_zone
from mirrorlake.sources.mysql.tables import quote

SCHEMA: Final = "mirrorlake.schema.json"
_REASONS: Final = {
    "view": "a view holds no rows of its own",
    "sequence": "a sequence is a counter",
}


@dataclass(frozen=True)
class Written:
    """What was written: how many tables, how many warnings, the variables that the file needs, and
    the server's own time zone, by name (None where it has none) and in the server's words.

    Attributes:
        tables: how many contracts were written.
        warnings: how many warnings are in the comments.
        variables: the environment variables that the file needs.
        time_zone: the server's own time zone, as written; null where no known zone matches.
        zone_words: the same as the server names it.
        modes: mode → how many tables.
        warning_kinds: the warnings by kind, that of most tables first.
        skipped: what else the server lists, and why no contract is written for it.
        indexes: full copies that an index alone would make incremental, largest first.
        nullable: full copies whose time of change can be NULL, as ``db.table (column)``.
        schema: the JSON schema's file; None where another file has its name.
        log: what is said of following the server's binary log.
        same_tables: table → how many databases have one of the name, where they are several: they
            may be tenants.
    """

    tables: int
    warnings: int
    variables: tuple[str, ...]
    time_zone: str | None
    zone_words: str
    modes: dict[str, int]
    warning_kinds: tuple[WarningKind, ...]
    skipped: tuple[Skipped, ...]
    indexes: tuple[IndexWanted, ...]
    nullable: tuple[str, ...]
    schema: str | None
    same_tables: dict[str, int]
    log: LogProposal


@dataclass(frozen=True)
class _Found:
    tables: list[SuggestedTable]
    skipped: list[Skipped]
    zone: ZoneFound
    missing: tuple[LogRequirement, ...] | None


def write_first_contract(
    url: str,
    name: str | None,
    output: Path,
    *,
    force: bool,
    choice: Choice | None = None,
    home: str = HOME,
    by_log: bool = False,
) -> Written:
    """Introspect a server and write its contract to ``output``; no row's value is kept.

    Args:
        choice: which databases and tables; all where it is left out.
        home: the folder of lake and ledger, relative to the contract's.
        by_log: whether full copies that can follow the server's binary log are to do so.

    Raises:
        ConfigError: the URL is wrong, a pattern matches nothing, the file is there and ``force`` is
        not, or it can't be written.
        SourceError: the server can't be reached or refuses, or shows this account no table.
    """
    if output.exists() and not force:
        raise ConfigError(
            f"{output} is there already",
            next_step="Give another --output, or --force to overwrite it",
        )
    parsed = _completed(parse_source_url(url))
    name = name or source_name(parsed)
    found = _suggest(parsed.source(name), parsed.database, choice or Choice())
    zone = found.zone
    if not found.tables:
        raise _no_table(name, parsed, found.skipped)
    tables, proposal = propose(found.tables, found.missing, wanted=by_log)
    variables = _variables(name, parsed, tables)
    schema = output.with_name(SCHEMA)
    ours = _is_ours(schema)
    line = f"./{SCHEMA}" if ours else None
    text = render_contract(name, parsed, tables, zone, found.skipped, line, home, proposal)
    _write(output, text, variables)
    if ours:
        _write_whole(schema, json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n")
    return Written(
        tables=len(tables),
        warnings=sum(len(t.warnings) for t in tables) + (zone.name is None),
        variables=variables,
        time_zone=zone.name,
        zone_words=zone.words,
        modes=count_modes(tables),
        warning_kinds=warning_kinds(tables),
        skipped=tuple(found.skipped),
        indexes=indexes_wanted(tables),
        nullable=nullable_times(tables),
        schema=str(schema) if ours else None,
        same_tables=tables_of_many(tables),
        log=proposal,
    )


def _no_table(name: str, parsed: SourceUrl, skipped: Sequence[Skipped]) -> SourceError:
    where = f"database {parsed.database}" if parsed.database else "any database"
    others = f" ({skipped[0].name}: {skipped[0].reason})" if skipped else ""
    return SourceError(
        f"{parsed.user} sees no table of {where} on {parsed.host}:{parsed.port}{others}",
        source=name,
        next_step="Check its name, and GRANT SELECT on it to this account",
    )


def _is_ours(schema: Path) -> bool:
    """Whether this file may be written: it is not there, or is the JSON schema of some version."""
    try:
        there = json.loads(schema.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return isinstance(there, dict) and {"title": "mirrorlake.yaml"}.items() <= there.items()


def _completed(url: SourceUrl) -> SourceUrl:
    """The URL with the password of the environment, and with its CA file's whole path."""
    secret = os.environ.get("MIRRORLAKE_INIT_PASSWORD", "")
    if secret:
        url = replace(url, password=SecretStr(secret))
    if isinstance(url.tls, TlsConfig):
        url = replace(url, tls=TlsConfig(ca=str(Path(url.tls.ca).absolute())))
    return url


def _variables(name: str, url: SourceUrl, tables: list[SuggestedTable]) -> tuple[str, ...]:
    hashed = any(rule.is_hash for table in tables for rule in table.rules)
    password = [password_variable(name)] if url.password.get_secret_value() else []
    return (*password, *(["MIRRORLAKE_HASH_KEY"] if hashed else []))


def _suggest(source: SourceConfig, database: str | None, choice: Choice) -> _Found:
    with ExitStack() as sessions:
        connection = sessions.enter_context(session(source))
        seen = (database,) if database else read_databases(connection)
        chosen = choose_databases(choice, seen)
        listed = choose_tables(choice, {d: read_listing(connection, d) for d in chosen})
        server = read_server_zone(connection, source)
        skipped, missing = list(_others(listed)), read_log(connection)
        tables: list[SuggestedTable] = []
        for of_database, names in listed.items():
            wanted = [name for name, kind in names.items() if kind == "table"]
            for found in _read_each(connection, of_database, wanted):
                one = _suggest_table(connection, found)
                if isinstance(one, Skipped) and not _answers(connection):
                    # With the server gone this ends it; else the table is looked at once more.
                    connection = sessions.enter_context(session(source))
                    one = _suggest_table(connection, found)
                if isinstance(one, SuggestedTable):
                    tables.append(one)
                else:
                    skipped.append(one)
    return _Found(tables, skipped, ZoneFound(name_of_zone(server), server.words), missing)


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
    connection: Connection[Any], table: SourceTable | Skipped
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
        suggested = suggest_contract(table, samples, hashes=is_there("pyspark"))
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


def _write(output: Path, text: str, variables: tuple[str, ...]) -> None:
    """Write the file whole or not at all, and only one that can be loaded."""

    def check(partial: Path) -> None:
        load_config(partial, environ=dict.fromkeys(variables, "stands for the secret"))

    _write_whole(output, text, check)


def _write_whole(output: Path, text: str, check: Callable[[Path], None] | None = None) -> None:
    partial = output.with_name(output.name + ".partial")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        try:
            if check is not None:
                check(partial)
            partial.replace(output)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{output} can't be written: {error.strerror}", next_step="Give another --output"
        ) from error
