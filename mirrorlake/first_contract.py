"""``mirrorlake init``: ask a server for its tables and write the first contract."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr

from mirrorlake.config import SourceConfig, TlsConfig, load_config
from mirrorlake.config.source_url import SourceUrl, parse_source_url
from mirrorlake.contract_file import (
    ZoneFound,
    password_variable,
    render_contract,
    source_name,
)
from mirrorlake.errors import ConfigError, SourceError
from mirrorlake.init import SuggestedTable, suggest_contract
from mirrorlake.mysql.connect import session
from mirrorlake.mysql.introspect import read_databases, read_samples, read_tables
from mirrorlake.mysql.zones import name_of_zone, read_server_zone


@dataclass(frozen=True)
class Written:
    """What was written: how many tables, how many warnings, the variables that the file needs, and
    the server's own time zone, by name (None where it has none) and in the server's words."""

    tables: int
    warnings: int
    variables: tuple[str, ...]
    time_zone: str | None = "UTC"
    zone_words: str = "+00:00"


def write_first_contract(url: str, name: str | None, output: Path, *, force: bool) -> Written:
    """Introspect a server and write its contract to ``output``; no row's value is kept.

    Raises:
        ConfigError: the URL is wrong, the file is there and ``force`` is not, or it can't be
        written.
        SourceError: the server can't be reached or refuses, or shows this account no table.
    """
    if output.exists() and not force:
        raise ConfigError(
            f"{output} is there already",
            next_step="Give another --output, or --force to overwrite it",
        )
    parsed = _completed(parse_source_url(url))
    name = name or source_name(parsed)
    tables, zone = _suggest(parsed.source(name), parsed.database)
    if not tables:
        where = f"database {parsed.database}" if parsed.database else "any database"
        raise SourceError(
            f"{parsed.user} sees no table of {where} on {parsed.host}:{parsed.port}",
            source=name,
            next_step="Check its name, and GRANT SELECT on it to this account",
        )
    variables = _variables(name, parsed, tables)
    _write(output, render_contract(name, parsed, tables, zone), variables)
    warnings = sum(len(t.warnings) for t in tables) + (zone.name is None)
    return Written(len(tables), warnings, variables, zone.name, zone.words)


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


def _suggest(source: SourceConfig, database: str | None) -> tuple[list[SuggestedTable], ZoneFound]:
    with session(source) as connection:
        databases = (database,) if database else read_databases(connection)
        tables = [
            suggest_contract(table, read_samples(connection, table))
            for found in databases
            for table in read_tables(connection, found, foreign_keys=True)
        ]
        server = read_server_zone(connection, source)
    return tables, ZoneFound(name_of_zone(server), server.words)


def _write(output: Path, text: str, variables: tuple[str, ...]) -> None:
    """Write the file whole or not at all, and only one that can be loaded."""
    partial = output.with_name(output.name + ".partial")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        try:
            load_config(partial, environ=dict.fromkeys(variables, "stands for the secret"))
            partial.replace(output)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{output} can't be written: {error.strerror}", next_step="Give another --output"
        ) from error
