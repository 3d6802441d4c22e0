"""What `check --against` does: both sides opened, tables that are on both found and compared."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pymysql.connections import Connection

from mirrorlake.config.fields import nearest
from mirrorlake.config.server import SourceConfig, TlsConfig
from mirrorlake.config.source_url import SourceUrl, parse_source_url
from mirrorlake.errors import ConfigError, MirrorlakeError, SourceError
from mirrorlake.other_copies.compare import CopyTerms, compare_copy
from mirrorlake.other_copies.theirs.find import find_tables
from mirrorlake.other_copies.theirs.table import TheirTable
from mirrorlake.other_copies.verdict import ComparedCopy
from mirrorlake.runtime.outcomes import Outcomes
from mirrorlake.sources.mysql.introspection.introspect import (
    read_databases,
    read_listing,
    read_table,
)
from mirrorlake.sources.mysql.sessions.connect import session

PASSWORD = "MIRRORLAKE_CHECK_PASSWORD"  # noqa: S105 – a variable's name
_URL = "--from mysql://user@host:3306/database"


@dataclass(frozen=True)
class CopiesAsked:
    """What is to be compared.

    Attributes:
        table: MySQL's, as ``orders`` or ``shop.orders``; None: each that is on both sides.
        their_table: what the copy calls it, where that is another name; ``schema.table`` too.
    """

    against: str
    url: str
    table: str | None = None
    their_table: str | None = None
    terms: CopyTerms = field(default_factory=CopyTerms)


@dataclass(frozen=True)
class ComparedCopies:
    """What was found.

    Attributes:
        failures: tables that could not be compared, and why.
        only_mysql, only_theirs: tables that are on one side alone, where all were asked for.
    """

    tables: tuple[ComparedCopy, ...]
    failures: tuple[tuple[str, MirrorlakeError], ...] = ()
    only_mysql: tuple[str, ...] = ()
    only_theirs: tuple[str, ...] = ()


def check_copies(asked: CopiesAsked, done: Callable[[str, str], None]) -> ComparedCopies:
    """Compare one table, or each that is on both sides, one after the other.

    Args:
        done: called with each table's name and what came of it.

    Raises:
        ConfigError: what is asked for can't be meant.
        SourceError, LakeError: a side can't be read; of several tables, that is kept in the result.
    """
    url = _completed(parse_source_url(asked.url))
    source = url.source("mysql")
    with _with_hint(url):
        return _check(asked, url, source, done)


def _check(
    asked: CopiesAsked, url: SourceUrl, source: SourceConfig, done: Callable[[str, str], None]
) -> ComparedCopies:
    with session(source) as connection:
        database, name = _place(asked.table, url.database, connection)
        listed = _tables_in(connection, database)
        wanted = None if name is None else _exactly(name, database, listed)
        terms, left_out = asked.terms, tuple[str, ...]()
        if wanted is None:  # then it is tables that are left out
            terms, left_out = replace(terms, left_out=()), terms.left_out
            listed = _but(listed, left_out)
        found = find_tables(asked.against, asked.their_table or wanted)
        pairs = _pairs(asked, listed, wanted, found)
        tables = {mine: read_table(connection, database, mine) for mine, _ in pairs} if (
            wanted is not None
        ) else {}  # fmt: skip
    compared = Outcomes[ComparedCopy]()

    def compare(mine: str, theirs: TheirTable) -> ComparedCopy:
        table = tables.get(mine)
        if table is None:
            with session(source) as connection:
                table = read_table(connection, database, mine)
        return compare_copy(source, table, theirs, terms)

    for mine, theirs in pairs:
        whole = f"{database}.{mine}"
        one = compared.attempt(whole, partial(compare, mine, theirs))
        if one.error is not None and wanted is not None:
            raise one.error
        done(whole, one.result.verdict if one.result is not None else "failed")
    if wanted is not None:
        return ComparedCopies(tuple(compared.results))
    paired = {mine for mine, _ in pairs}
    places = {theirs.place for _, theirs in pairs}
    places |= {one.place for name in left_out for one in _alike(name, found)}
    return ComparedCopies(
        tuple(compared.results),
        tuple(compared.failures),
        tuple(one for one in listed if one not in paired),
        tuple(one.name for one in found if one.place not in places),
    )


def _completed(url: SourceUrl) -> SourceUrl:
    """The URL with the password of the environment, and with its CA file's whole path."""
    secret = os.environ.get(PASSWORD, "")
    if secret and not url.password.get_secret_value():
        url = replace(url, password=SecretStr(secret))
    if isinstance(url.tls, TlsConfig):
        url = replace(url, tls=TlsConfig(ca=str(Path(url.tls.ca).absolute())))
    return url


@contextmanager
def _with_hint(url: SourceUrl) -> Iterator[None]:
    """A server that refuses somebody without a password says less than it could."""
    try:
        yield
    except SourceError as error:
        if url.password.get_secret_value() or not re.search(r"\[(1045|1698)\]", error.message):
            raise
        raise SourceError(
            error.message,
            source=error.source,
            next_step=f"No password was given: write it into the environment, as {PASSWORD}",
        ) from error


def _place(
    table: str | None, database: str | None, connection: Connection[Any]
) -> tuple[str, str | None]:
    """Database and table that are meant."""
    name = table
    if table is not None and "." in table and database is None:
        database, _, name = table.partition(".")
    elif table is not None and database is not None:
        name = table.removeprefix(f"{database}.")
    known = read_databases(connection)
    if database is None:
        raise ConfigError(
            "no database is named",
            next_step=f"Write it behind the host ({_URL}): there are {', '.join(known) or 'none'}",
        )
    if database not in known:
        raise ConfigError(
            f"this account sees no database {database!r}{nearest(database, [*known])}",
            next_step=f"It sees {', '.join(known) or 'none'}",
        )
    return database, name


def _tables_in(connection: Connection[Any], database: str) -> list[str]:
    listed = read_listing(connection, database)
    return [name for name, kind in listed.items() if kind == "table"]


def _exactly(name: str, database: str, listed: Sequence[str]) -> str:
    if name in listed:
        return name
    raise ConfigError(
        f"database {database} has no table {name!r}{nearest(name, [*listed])}",
        next_step="Check its name, and that this account may read it",
    )


def _pairs(
    asked: CopiesAsked, listed: Sequence[str], wanted: str | None, found: Sequence[TheirTable]
) -> list[tuple[str, TheirTable]]:
    """MySQL's tables and the copies of them."""
    if asked.their_table is not None:
        if wanted is None:
            raise ConfigError(
                "--their-table is of one table", next_step="Name MySQL's: mirrorlake check TABLE"
            )
        return [(wanted, _called(asked.their_table, found, asked.against))]
    if wanted is not None:
        only = found[0] if len(found) == 1 else _called(wanted, found, asked.against)
        return [(wanted, only)]
    pairs: list[tuple[str, TheirTable]] = []
    for mine in listed:
        alike = _alike(mine, found)
        if len(alike) > 1:
            raise _several(mine, alike)
        pairs += [(mine, one) for one in alike]
    if pairs:
        return pairs
    raise ConfigError(
        f"no table is on both sides: MySQL has {_some(listed)}, --against {_hidden(asked.against)} "
        f"has {_some([one.name for one in found])}",
        next_step="Name the table: mirrorlake check TABLE --against …, with --their-table where "
        "the copy has another name",
    )


def _but(listed: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """The tables without those that are left out."""
    if unknown := [one for one in left_out if one not in listed]:
        raise ConfigError(
            f"--leave-out: MySQL has no table {unknown[0]!r}{nearest(unknown[0], [*listed])}",
            next_step="Without TABLE, it names tables; with TABLE, its columns",
        )
    return [one for one in listed if one not in left_out]


def _called(name: str, found: Sequence[TheirTable], against: str) -> TheirTable:
    schema, _, bare = name.rpartition(".")
    alike = [one for one in _alike(bare, found) if schema in ("", one.schema)]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise _several(name, alike)
    names = [one.name for one in found]
    raise ConfigError(
        f"--against {_hidden(against)} has no table {name!r}{nearest(name, names)}",
        next_step=f"It has {_some(names)}: --their-table names one",
    )


def _alike(name: str, found: Sequence[TheirTable]) -> list[TheirTable]:
    """The tables of that name; else those whose name a tool may have made of it."""
    for form in (str, _plain):
        if alike := [one for one in found if form(one.name) == form(name)]:
            return alike
    return []


def _several(name: str, alike: Sequence[TheirTable]) -> ConfigError:
    places = [f"{one.schema}.{one.name}" if one.schema else one.place for one in alike]
    return ConfigError(
        f"the copy has several tables {name}: {', '.join(places)}",
        next_step=f"Name one: --their-table {places[0]}",
    )


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return (", ".join(names[:8]) or "none") + more


def _hidden(against: str) -> str:
    """A URI without its password."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1@", against)
