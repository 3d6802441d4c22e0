"""Which table a name means: whether it is the one that was read before, made again, or truncated.

A table that is dropped and made again from a dump, or truncated and filled again, has its old name
and other rows. Nothing in its rows says so; what the server keeps of the table does.

Source: MySQL 8.0 manual, 28.3.38 "The INFORMATION_SCHEMA TABLES Table", 28.4.23 "The
INFORMATION_SCHEMA INNODB_TABLES Table", 13.1.37 "TRUNCATE TABLE Statement".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.connect import rows_of
from mirrorlake.sources.mysql.tables import SourceTable, quote

_TABLES = (
    "SELECT CREATE_TIME, AUTO_INCREMENT FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)
_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")
_PLAIN = re.compile(r"[0-9A-Za-z_]+")
_AT_ONCE = 500


@dataclass(frozen=True)
class Identity:
    """What distinguishes a table from another one of its name.

    Attributes:
        made: when the server made or altered it (``CREATE_TIME``, by the server's clock, whole
            seconds). TRUNCATE leaves it as it is.
        definition: a digest of its whole definition, without the counter.
        next_key: what its AUTO_INCREMENT gives out next; None without such a column.
        innodb_id: InnoDB's own number of it, which TRUNCATE changes; None where the account may not
            see it (it needs PROCESS), where the table has partitions, or a name of which InnoDB
            keeps another spelling.
    """

    made: str | None
    definition: str
    next_key: int | None
    innodb_id: int | None

    def to_fields(self) -> dict[str, Any]:
        """What `from_fields` takes."""
        return asdict(self)

    @staticmethod
    def from_fields(recorded: dict[str, Any]) -> Identity:
        """What `to_fields` gave; what a newer release added is left out."""
        names = [field.name for field in fields(Identity)]
        return Identity(**{name: recorded.get(name) for name in names})  # type: ignore[arg-type]


def read_identity(connection: Connection[Any], table: SourceTable) -> Identity:
    """The identity of a table as the server has it now.

    Raises:
        SourceError: the server could not be queried.
    """
    name = (table.database, table.name)
    [(made, counter)] = rows_of(connection, _TABLES, name) or [(None, None)]
    counts = any("auto_increment" in column.extra.lower() for column in table.columns)
    return Identity(
        made=None if made is None else str(made),
        definition=hashlib.sha256(_definition(connection, table).encode()).hexdigest()[:16],
        # MySQL 8 says NULL of a table that has not given out any number yet.
        next_key=(1 if counter is None else int(counter)) if counts else None,
        innodb_id=_innodb_id(connection, table),
    )


def _definition(connection: Connection[Any], table: SourceTable) -> str:
    try:
        whole = f"{quote(table.database)}.{quote(table.name)}"
        text = str(rows_of(connection, f"SHOW CREATE TABLE {whole}")[0][1])
    except SourceError as error:
        if "denied" not in error.message:
            raise
        # Who may read single columns alone is not shown it: then what is seen of the table.
        return repr((table.engine, table.columns, table.indexes, table.foreign_keys))
    return _COUNTER.sub("", text)


def _innodb_id(connection: Connection[Any], table: SourceTable) -> int | None:
    if table.engine.lower() != "innodb":
        return None
    return read_innodb_ids(connection, table.database, [table.name]).get(table.name)


def read_innodb_ids(
    connection: Connection[Any], database: str, names: Sequence[str]
) -> dict[str, int]:
    """InnoDB's own number of each of these tables; none of a table with partitions, or with a name
    of which InnoDB keeps another spelling, and none at all without PROCESS."""
    found = _read_ids(connection, [(database, name) for name in names])
    return {name: number for (_, name), number in found.items()}


def read_innodb_ids_in(
    connection: Connection[Any], databases: Sequence[str], table: str
) -> dict[str, int]:
    """The same of one table in many databases, by database."""
    found: dict[str, int] = {}
    for some in (databases[n : n + _AT_ONCE] for n in range(0, len(databases), _AT_ONCE)):
        ids = _read_ids(connection, [(database, table) for database in some])
        found |= {database: number for (database, _), number in ids.items()}
    return found


def _read_ids(
    connection: Connection[Any], tables: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    plain = [place for place in tables if all(_PLAIN.fullmatch(part) for part in place)]
    paths = {f"{database}/{name}": (database, name) for database, name in plain}
    maria = "mariadb" in connection.get_server_info().lower()
    view = "INNODB_SYS_TABLES" if maria else "INNODB_TABLES"
    marks = ", ".join(["%s"] * len(paths))
    sql = f"SELECT NAME, TABLE_ID FROM information_schema.{view} WHERE NAME IN ({marks})"  # noqa: S608
    try:
        rows = rows_of(connection, sql, tuple(paths)) if paths else []
    except SourceError:
        return {}  # without PROCESS, or in a server that does not have this view
    # The server may compare without regard to case: there may be two.
    there: dict[str, dict[str, int]] = {}
    for name, number in rows:
        there.setdefault(str(name).lower(), {})[str(name)] = int(number)
    found: dict[tuple[str, str], int] = {}
    for path, place in paths.items():
        ids = there.get(path.lower(), {})
        exact = ids.get(path)
        if exact is not None or len(ids) == 1:
            found[place] = exact if exact is not None else next(iter(ids.values()))
    return found


def why_another(before: Identity, now: Identity) -> str | None:
    """Why a table is not the one that was read before, or not surely, in words; None where it is.

    An ALTER may change its number and, but for one within the same second, when it was made, too;
    then its definition says so. One that only rebuilds the table (OPTIMIZE, FORCE) can't be
    distinguished from a table that was made again.

    >>> read = Identity("2026-01-01 00:00:00", "d", 100, 7)
    >>> why_another(read, Identity("2026-01-02 00:00:00", "other", 120, 8))
    >>> why_another(read, Identity("2026-01-01 00:00:00", "other", 120, 8))
    >>> why_another(read, Identity("2026-01-01 00:00:00", "d", 120, 8))
    'it was truncated'
    >>> why_another(read, Identity("2026-01-02 00:00:00", "d", 120, 8))
    'it was made again or rebuilt at 2026-01-02 00:00:00'
    >>> why_another(read, Identity("2026-01-02 00:00:00", "other", 90, 8))
    'its AUTO_INCREMENT fell'
    """
    ids, keys = (before.innodb_id, now.innodb_id), (before.next_key, now.next_key)
    altered = before.definition != now.definition
    if before.made == now.made and not altered and None not in ids and ids[0] != ids[1]:
        return "it was truncated"
    if before.made != now.made and not altered:
        return f"it was made again or rebuilt at {now.made}"
    fell = keys[0] is not None and keys[1] is not None and keys[1] < keys[0]
    return "its AUTO_INCREMENT fell" if fell else None
