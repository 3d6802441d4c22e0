"""``mirrorlake init``: the first contract of a server, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import SecretStr

from mirrorlake.config import TlsConfig, load_config
from mirrorlake.config.source_url import SourceUrl, parse_source_url
from mirrorlake.errors import ConfigError
from mirrorlake.init.by_log import LogProposal
from mirrorlake.init.choice import Choice
from mirrorlake.init.decisions import Decisions, decide
from mirrorlake.init.render import HOME, password_variable, render_contract
from mirrorlake.init.suggest_tables import SuggestedTable
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
from mirrorlake.init.survey import Survey, survey_server
from mirrorlake.operations.status.leftovers import read_schema, schema_of, schema_text


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


def write_first_contract(
    url: str,
    name: str | None,
    output: Path,
    *,
    force: bool,
    choice: Choice | None = None,
    decisions: Decisions | None = None,
    home: str = HOME,
    hashes: bool | None = None,
) -> Written:
    """Introspect a server and write its contract to ``output``; no row's value is kept.

    Args:
        choice: which databases and tables; all where it is left out.
        decisions: modes and rules that a person wants other than proposed.
        home: the folder of lake and ledger, relative to the contract's.
        hashes: whether hashes are proposed; by default where Spark is installed.

    Raises:
        ConfigError: the URL is wrong, a pattern matches nothing, the file is there and ``force`` is
            not, it can't be written, or what is decided can't be.
        SourceError: the server can't be reached or refuses, or shows this account no table.
    """
    refuse_taken(output, force=force)
    found = survey_server(complete_url(url), name, choice or Choice(), hashes=hashes)
    return write_survey(found, output, decisions or Decisions(), home=home)


def refuse_taken(output: Path, *, force: bool) -> None:
    """See that the contract may be written.

    Raises:
        ConfigError: the file is there, and ``force`` is not.
    """
    if output.exists() and not force:
        raise ConfigError(
            f"{output} is there already",
            next_step="Give another --output, or --force to overwrite it",
        )


def write_survey(found: Survey, output: Path, decisions: Decisions, *, home: str = HOME) -> Written:
    """Write the contract of a server that was looked at, and the JSON schema beside it.

    Raises:
        ConfigError: what is decided can't be, or the file can't be written.
    """
    tables, proposal = decide(found.tables, decisions, found.missing)
    variables = _variables(found.name, found.url, tables)
    schema = schema_of(output)
    ours = not schema.exists() or read_schema(schema) is not None
    line = f"./{schema.name}" if ours else None
    text = render_contract(
        found.name, found.url, tables, found.zone, found.skipped, line, home, proposal
    )
    _write(output, text, variables)
    if ours:
        _write_whole(schema, schema_text())
    return Written(
        tables=len(tables),
        warnings=sum(len(t.warnings) for t in tables) + (found.zone.name is None),
        variables=variables,
        time_zone=found.zone.name,
        zone_words=found.zone.words,
        modes=count_modes(tables),
        warning_kinds=warning_kinds(tables),
        skipped=found.skipped,
        indexes=indexes_wanted(tables),
        nullable=nullable_times(tables),
        schema=str(schema) if ours else None,
        same_tables=tables_of_many(tables),
        log=proposal,
    )


def complete_url(text: str) -> SourceUrl:
    """A server's URL with the password of the environment, and with its CA file's whole path.

    Raises:
        ConfigError: it is wrong.
    """
    url = parse_source_url(text)
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
