"""Which tables of a server a first contract is written for: shell-style patterns over their names.

``*`` is any text, ``?`` one character, ``[ab]`` one of these. A pattern with a dot is of
``database.table`` (or of a table whose own name has a dot), one without of a table in any database.
Upper and lower case are two names, as they are to MySQL on Linux.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from mirrorlake.errors import ConfigError

_SHOWN = 5


@dataclass(frozen=True)
class Choice:
    """Patterns as a person gave them; none of databases or of tables means all."""

    databases: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def choose_databases(choice: Choice, databases: Sequence[str]) -> tuple[str, ...]:
    """The databases that are meant, in their order.

    Raises:
        ConfigError: a pattern matches none.
    """
    for pattern in choice.databases:
        if not any(fnmatchcase(name, pattern) for name in databases):
            raise no_match("--database", pattern, "no database that this account sees", databases)
    if not choice.databases:
        return tuple(databases)
    return tuple(d for d in databases if any(fnmatchcase(d, p) for p in choice.databases))


def choose_tables(
    choice: Choice, listed: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """What is meant of what each database lists, with what it is: ``table``, ``view``….

    Args:
        listed: database → name → what it is.

    Raises:
        ConfigError: a pattern matches no table, or no table is left.
    """
    everything = [(d, name, kind) for d, names in listed.items() for name, kind in names.items()]
    tables = [f"{d}.{name}" for d, name, kind in everything if kind == "table"]
    for option, patterns in (("--tables", choice.tables), ("--exclude", choice.exclude)):
        for pattern in patterns:
            kinds = {kind for d, name, kind in everything if fits(pattern, d, name)}
            if not kinds:
                raise no_match(option, pattern, "no table", tables)
            if option == "--tables" and "table" not in kinds:
                raise ConfigError(
                    f"--tables {pattern!r} matches no table: {' and '.join(sorted(kinds))} alone",
                    next_step="Name tables: nothing else is mirrored",
                )
    chosen = {
        database: {
            name: kind
            for name, kind in names.items()
            if (not choice.tables or any(fits(p, database, name) for p in choice.tables))
            and not any(fits(p, database, name) for p in choice.exclude)
        }
        for database, names in listed.items()
    }
    if tables and not any("table" in names.values() for names in chosen.values()):
        raise ConfigError(
            "these patterns leave no table", next_step="Give a wider --tables, or less --exclude"
        )
    return chosen


def fits(pattern: str, database: str, table: str) -> bool:
    """Whether a pattern means a table."""
    if "." in pattern and fnmatchcase(f"{database}.{table}", pattern):
        return True
    return fnmatchcase(table, pattern)


def no_match(option: str, pattern: str, what: str, names: Iterable[str]) -> ConfigError:
    """The error of a pattern that matches nothing, with the names that may have been meant."""
    names = list(names)
    return ConfigError(
        f"{option} {pattern!r} matches {what}", next_step=_near(pattern, names) or _some(names)
    )


def _near(pattern: str, names: Sequence[str]) -> str:
    """The names that a person may have meant, of ``db.table`` by whole name and by the table's."""
    wanted = pattern.lower()
    by_shape = [n for n in names for whole in (n, n.split(".", 1)[-1])
                if fnmatchcase(whole.lower(), wanted)]  # fmt: skip
    bare = wanted.strip("*?")
    if "." not in bare:
        spelt = {n.split(".", 1)[-1].lower(): n for n in reversed(names)}
    else:
        spelt = {n.lower(): n for n in reversed(names)}
    close = [spelt[found] for found in get_close_matches(bare, spelt, n=_SHOWN, cutoff=0.6)]
    found = list(dict.fromkeys([*by_shape, *close]))[:_SHOWN]
    return f"Did you mean {', '.join(map(repr, found))}?" if found else ""


def _some(names: Sequence[str]) -> str:
    if not names:
        return "Check the name, and what is granted to this account"
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"There are {', '.join(map(repr, names[:_SHOWN]))}{more}"
