"""How a person names a table of the contract file: by its whole name, or a shorter one that only
one table has.

What belongs here: finding by name, and the errors where nobody or several are called so. What
doesn't: which tables a file has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Protocol, TypeVar

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ConfigError

FOR_TENANTS: Final = (
    "`mirrorlake sync`, `tenants`, `status`, `check`, `schema`, `recover` and `maintain` take it"
)
"""What a person can do with a table of tenants where a command does not take it."""


class Spelled(Protocol):
    """What has a name in the contract file."""

    @property
    def name(self) -> str: ...

    @property
    def spellings(self) -> tuple[str, ...]:
        """What it may be called, the whole name first; as many for each of a kind."""
        ...


SomeTable = TypeVar("SomeTable", bound=Spelled)


def find_named(name: str, tables: Sequence[SomeTable], path: Path) -> SomeTable | None:
    """The table that is called so; a longer spelling goes before a shorter one. None: nobody.

    Raises:
        ConfigError: several are called so.
    """
    return find_each([name], tables, path)[0]


def find_each(
    names: Sequence[str], tables: Sequence[SomeTable], path: Path
) -> list[SomeTable | None]:
    """For each name what `find_named` finds; the tables are looked through once for all of them.

    Raises:
        ConfigError: several are called by one of the names.
    """
    wanted, called = set(names), dict[tuple[int, str], list[SomeTable]]()
    longest = 0
    for table in tables:
        spellings = table.spellings
        longest = max(longest, len(spellings))
        for place, spelling in enumerate(spellings):
            if spelling in wanted:
                called.setdefault((place, spelling), []).append(table)
    return [_only_one(name, called, longest, path) for name in names]


def _only_one(
    name: str, called: Mapping[tuple[int, str], Sequence[SomeTable]], longest: int, path: Path
) -> SomeTable | None:
    found = next((called[at, name] for at in range(longest) if (at, name) in called), ())
    if len(found) > 1:
        listed = ", ".join(table.name for table in found)
        raise ConfigError(
            f"{name!r} can mean {len(found)} tables of {path}: {listed}",
            next_step="Write the whole name",
            table=name,
        )
    return found[0] if found else None


def expand(
    names: Iterable[str], tables: Sequence[Spelled], path: Path, among: Sequence[Spelled] = ()
) -> list[str]:
    """These names, each pattern (with ``*``, ``?`` or ``[``) replaced by the whole names of the
    tables that are called so by any of their spellings; each table once.

    Args:
        among: what is looked through beside ``tables``, for the error where nothing is called so.

    Raises:
        ConfigError: a pattern means none of them.
    """
    found: list[str] = []
    for name in names:
        if not any(sign in name for sign in "*?[") or name in all_spellings([*tables, *among]):
            found.append(name)
            continue
        meant = [t.name for t in tables if any(fnmatchcase(one, name) for one in t.spellings)]
        if not meant:
            raise ConfigError(
                f"no table of {path} that this command takes is called like {name!r}",
                next_step="`mirrorlake status` lists the tables. Quote a pattern, so that the "
                "shell does not take it for names of files",
                table=name,
            )
        found += meant
    return list(dict.fromkeys(found))


def all_spellings(tables: Iterable[Spelled]) -> list[str]:
    """Every name that some table may be called by."""
    return [spelling for table in tables for spelling in table.spellings]


def unknown_name(
    name: str,
    tables: Iterable[Spelled],
    path: Path,
    what: str = "table",
    listed_by: str = "`mirrorlake status` lists the tables",
) -> ConfigError:
    """The error where nobody is called so, with the nearest name."""
    return ConfigError(
        f"no {what} {name!r} in {path}{nearest(name, all_spellings(tables))}",
        next_step=f"{listed_by}; one that is missing needs a contract",
        table=name,
    )


def of_tenants(name: str, instead: str = FOR_TENANTS) -> ConfigError:
    """The error of a command that does not take a table of tenants.

    Args:
        name: the table's, ``group.table``.
        instead: what a person can do.
    """
    return ConfigError(
        f"{name} is a table of tenants, which this command does not take",
        next_step=instead,
        table=name,
    )
