"""A migration's statements about a table that no contract names and that it does not make: whether
there is such a table. A name that was mistyped would pass for a table that is not mirrored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mirrorlake.config import Config
from mirrorlake.config.fields import matches, nearest
from mirrorlake.preflight.findings import Finding
from mirrorlake.preflight.migration import Migration
from mirrorlake.sources.mysql.ddl.actions import RenameTable, Statement
from mirrorlake.sources.mysql.introspection.introspect import read_listing
from mirrorlake.sources.mysql.sessions.connect import session

_NOT_MIRRORED: Final = "it has no contract: it is not mirrored"
_NEEDED: Final = ("alter", "truncate")
"""Kinds of statements that need a table which is there; a DROP may say IF EXISTS."""


def unmirrored_finding(
    config: Config,
    migration: Migration,
    place: tuple[str | None, str],
    statements: Sequence[Statement],
) -> Finding:
    """That a table is not mirrored; or that there is none, where its database is known.

    Args:
        place: its database, if it is named, and its name.

    Raises:
        SourceError: a server could not be queried.
    """
    database, name = place
    mirrored = {one.table for one in (*config.tables, *config.tenants)}
    near = nearest(name, mirrored)
    if statements[0].kind in _NEEDED and not _is_made(migration, name):
        where = list(_databases(config, database))
        listed = {one: _listing(config, *one) for one in where}
        if where and not any(name.lower() in names for names in listed.values()):
            there = {name for names in listed.values() for name in names}
            named = " or ".join(sorted({f"{of}.{name}" for _, of in where}))
            words = f"MySQL has no table {named} that this account may see"
            step = "Correct the name; a table that the account may not see is not mirrored"
            return Finding("attention", f"{words}{near or nearest(name, there)}", step)
    return Finding("attention" if near else "ok", f"{_NOT_MIRRORED}{near}")


def _is_made(migration: Migration, name: str) -> bool:
    """Whether the migration gives a table this name."""
    actions = (action for statement in migration.ordered for action in statement.actions)
    return any(isinstance(one, RenameTable) and one.name == name for one in actions)


def _databases(config: Config, database: str | None) -> Iterator[tuple[str, str]]:
    """The sources and databases that are meant: those of that name from which something is
    mirrored; if none is named, the one that there is."""
    contracted = dict.fromkeys((one.source, one.database) for one in config.tables)
    if database is None:
        yield from contracted if len(contracted) == 1 and not config.tenants else ()
        return
    yield from (place for place in contracted if place[1].lower() == database.lower())
    groups = [one for one in config.tenants if matches(one.databases, database)]
    for source in dict.fromkeys(source for one in groups for source in one.sources):
        if (source, database) not in contracted:
            yield source, database


def _listing(config: Config, source: str, database: str) -> set[str]:
    """The names of a database's tables, in lower case."""
    with session(config.sources[source]) as connection:
        return {name.lower() for name in read_listing(connection, database)}
