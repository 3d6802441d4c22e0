"""What a MySQL server says of its tables: columns, keys, indexes, sizes (``information_schema``).

Source: MySQL 8.0 manual, 28.3 "INFORMATION_SCHEMA General Tables"; MariaDB knowledge base,
"Information Schema Tables".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import TableContract
from mirrorlake.config.fields import nearest
from mirrorlake.config.yaml.file_positions import place_of
from mirrorlake.errors import SchemaError, SourceError
from mirrorlake.schema.detectors import texts_of
from mirrorlake.sources.mysql.introspection.foreign_keys import may_see, read_foreign_keys
from mirrorlake.sources.mysql.introspection.indexes import enforced, read_indexes
from mirrorlake.sources.mysql.introspection.lake_names import in_lake
from mirrorlake.sources.mysql.sessions.connect import is_mariadb, rows_of
from mirrorlake.sources.mysql.tables import Column, SourceTable, quote
from mirrorlake.sources.mysql.types.registry import BYTES

_SYSTEM_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")


_COLUMNS = """
SELECT COLUMN_NAME, ORDINAL_POSITION, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME,
       COLLATION_NAME, NUMERIC_PRECISION, NUMERIC_SCALE, CHARACTER_MAXIMUM_LENGTH,
       DATETIME_PRECISION, EXTRA, COLUMN_COMMENT, {of}, GENERATION_EXPRESSION,
       LOCATE('MariaDB', VERSION()), COLUMN_DEFAULT
FROM information_schema.COLUMNS WHERE {where} ORDER BY {of}, ORDINAL_POSITION"""
_TABLES = """
SELECT {of}, ENGINE, TABLE_ROWS, TABLE_COMMENT, TABLE_TYPE, TABLE_SCHEMA
FROM information_schema.TABLES
WHERE {where} AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY {of}"""
# Only an equality spares the server from opening every table of the database.
_ONE_TABLE = {"of": "TABLE_NAME", "where": "TABLE_SCHEMA = %s AND TABLE_NAME = %s"}
_ALL_TABLES = {"of": "TABLE_NAME", "where": "TABLE_SCHEMA = %s AND TABLE_NAME LIKE %s"}
_ALL_DATABASES = {"of": "TABLE_SCHEMA", "where": "TABLE_NAME = %s"}


_VERSIONED = "SYSTEM VERSIONED"
_SAME = {"utf8mb4_0900_bin": "utf8mb4_bin"}
"""In MariaDB another name of the latter, under which trailing spaces don't count as in MySQL."""
_LISTING = """
SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES
WHERE TABLE_SCHEMA = %s ORDER BY TABLE_NAME"""
_LISTED_AS = """
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES
WHERE TABLE_NAME = %s ORDER BY 1, 2"""


def read_databases(connection: Connection[Any]) -> tuple[str, ...]:
    """The names of the databases that this user may see, the system's own left out, in order."""
    found = rows_of(connection, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA ORDER BY 1")
    return tuple(str(name) for (name,) in found if str(name).lower() not in _SYSTEM_DATABASES)


def spelled(connection: Connection[Any], database: str) -> str:
    """A database's name as the server has it: with ``lower_case_table_names`` it answers to others.

    Raises:
        SourceError: the server could not be queried.
    """
    sql = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"
    found = [str(name) for (name,) in rows_of(connection, sql, (database,))]
    return found[0] if len(found) == 1 else database


def read_listing(connection: Connection[Any], database: str) -> dict[str, str]:
    """Everything that a database lists as a table, by name → ``table``, or what else it is: a
    ``view``, a ``sequence`` of MariaDB; in the order of the names.

    Raises:
        SourceError: the server could not be queried.
    """
    listed = rows_of(connection, _LISTING, (database,))
    return {str(name): _kind(str(kind)) for name, kind in listed}


def _kind(listed: str) -> str:
    kind = listed.lower()
    return "table" if kind in ("base table", "system versioned") else kind


def estimate_rows(
    connection: Connection[Any], tables: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """About how many rows these tables (database, name) have, by the server's statistics; those
    that it does not list are left out.

    Raises:
        SourceError: the server could not be queried.
    """
    found: dict[tuple[str, str], int] = {}
    for database in dict.fromkeys(database for database, _ in tables):
        rows = rows_of(connection, _TABLES.format(**_ALL_TABLES), (database, "%"))
        found |= {(database, str(name)): int(count or 0) for name, _, count, *_ in rows}
    return {place: found[place] for place in tables if place in found}


def read_tables(
    connection: Connection[Any],
    database: str,
    table: str | None = None,
    *,
    foreign_keys: bool = False,
) -> tuple[SourceTable, ...]:
    """Every base table of a database, in the order of their names; views are left out. A database
    whose name is spelled otherwise has none.

    Args:
        table: this one alone, and those that the server takes for one name with it.
        foreign_keys: whether they are read too, which may cost a statement for each table.

    Raises:
        SourceError: the server could not be queried.
    """
    refresh_statistics(connection)

    def ask(sql: str) -> list[tuple[Any, ...]]:
        terms, name = (_ALL_TABLES, "%") if table is None else (_ONE_TABLE, table)
        match = "LIKE %s" if table is None else "= %s"
        return rows_of(connection, sql.format(**terms, match=match), (database, name))

    columns = _columns_by_table(ask(_COLUMNS))
    indexes = read_indexes(connection, ask, columns)
    foreign = read_foreign_keys(connection, database, ask) if foreign_keys else {}

    def hidden(name: str) -> bool:
        # MySQL shows them to whoever may see the table.
        looked = foreign_keys and is_mariadb(connection) and name not in foreign
        return looked and not may_see(connection, database, name)

    return tuple(
        SourceTable(
            database=database,
            name=str(name),
            engine=str(engine or ""),
            columns=tuple(columns.get(str(name), ())),
            indexes=enforced(str(engine), columns.get(str(name), ()), indexes.get(str(name), ())),
            estimated_rows=int(rows or 0),
            foreign_keys=foreign.get(str(name), ()),
            keys_hidden=hidden(str(name)),
            comment=str(comment or ""),
            versioned=str(kind).upper() == _VERSIONED,
        )
        for name, engine, rows, comment, kind, listed_in in ask(_TABLES)
        # `lower_case_table_names` finds Shop, too, whose changes are logged as those of shop.
        if str(listed_in) == database
    )


def read_table(connection: Connection[Any], database: str, table: str) -> SourceTable:
    """One table, with every column that it has.

    Raises:
        SchemaError: there is no such table (with the nearest name), or it is a view, or this user
            may not see it, or not all of it.
    """
    # The server compares these names without regard to case: there may be several.
    tables = {t.name: t for t in read_tables(connection, database, table, foreign_keys=True)}
    if table not in tables:
        raise _missing(connection, database, table)
    check_whole(connection, tables[table])
    return tables[table]


def read_in_databases(
    connection: Connection[Any], databases: Collection[str], table: str
) -> dict[str, SourceTable]:
    """One table as each of these databases has it, by database; those that have none are left out.
    Three statements, however many databases there are; foreign keys are not read.

    Raises:
        SourceError: the server could not be queried.
    """
    refresh_statistics(connection)

    def ask(sql: str) -> list[tuple[Any, ...]]:
        return rows_of(connection, sql.format(**_ALL_DATABASES), (table,))

    alike = _named_alike(connection, table)
    columns = _columns_by_table(ask(_COLUMNS))
    indexes = read_indexes(connection, ask, columns)
    found = {
        str(database): SourceTable(
            database=str(database),
            name=table,
            engine=str(engine or ""),
            columns=tuple(columns.get(str(database), ())),
            indexes=enforced(
                str(engine), columns.get(str(database), ()), indexes.get(str(database), ())
            ),
            estimated_rows=int(rows or 0),
            foreign_keys=(),
            comment=str(comment or ""),
            versioned=str(kind).upper() == _VERSIONED,
        )
        for database, engine, rows, comment, kind, _ in ask(_TABLES)
        if str(database) in databases and str(database) not in alike
    }
    for database in sorted(alike & {*databases}):
        for one in read_tables(connection, database, table):
            if one.name == table:
                found[database] = one
    return found


def read_columns(connection: Connection[Any], database: str, table: str) -> tuple[Column, ...]:
    """The columns of one table, in order; none of one that is not there. One statement.

    Raises:
        SourceError: the server could not be queried.
    """
    found = rows_of(connection, _COLUMNS.format(**_ONE_TABLE), (database, table))
    # The server compares the name without regard to case: of two tables, this would be both.
    return tuple(_columns_by_table(found).get(table, ()))


def read_listed_in(connection: Connection[Any], table: str) -> dict[str, dict[str, str]]:
    """What each database lists under one name, by database: the names as they are spelled there →
    what they are (`read_listing`). The server may take names for one that differ in case; one
    statement.

    Raises:
        SourceError: the server could not be queried.
    """
    found: dict[str, dict[str, str]] = {}
    for database, name, kind in rows_of(connection, _LISTED_AS, (table,)):
        found.setdefault(str(database), {})[str(name)] = _kind(str(kind))
    return found


def _named_alike(connection: Connection[Any], table: str) -> set[str]:
    """The databases with a table that the server finds under this name and that is called otherwise
    (``Orders`` for ``orders``): the catalog's answer does not say which of the two it is for."""
    sql = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME = %s"
    return {str(of) for of, name in rows_of(connection, sql, (table,)) if str(name) != table}


def read_contracted(
    config: Config, contract: TableContract, connection: Connection[Any]
) -> SourceTable:
    """`read_table` of a contract's table, its columns called as in the lake; errors name the line
    of the contract.

    Raises:
        SchemaError: as `read_table` says.
    """
    try:
        table = read_table(connection, contract.database, contract.table)
    except SchemaError as error:
        name = (contract.source, contract.database, contract.table)
        raise error.located(place_of(config.path, name, None)) from None
    try:
        return in_lake(table, contract)
    except SchemaError as error:
        name = (contract.source, contract.database, contract.table)
        raise error.located(place_of(config.path, name, error.column)) from None


def _missing(connection: Connection[Any], database: str, table: str) -> SchemaError:
    databases, listed = read_databases(connection), read_listing(connection, database)
    words = f"MySQL has no table {database}.{table} that this user may read"
    if database not in databases:
        words = f"MySQL has no database {database} that this user may see"
        words += nearest(database, set(databases))
    elif table in listed:
        words = f"{database}.{table} is a {listed[table]}, and only tables are mirrored"
    else:
        words += nearest(table, [name for name, kind in listed.items() if kind == "table"])
    return SchemaError(
        words,
        table=f"{database}.{table}",
        next_step="Check its name and the user's SELECT privilege, or remove it from the contract",
    )


def check_whole(connection: Connection[Any], table: SourceTable) -> None:
    """See that no column is hidden from us: a server shows only those that the user may read, and a
    mirror without the others would look whole.

    Raises:
        SchemaError: one is.
        SourceError: the server can't read the table at all.
    """
    name = f"{table.database}.{table.name}"
    hidden = [c.ordinal for c in table.columns] != list(range(1, len(table.columns) + 1))
    words = "a column in the middle is hidden"
    try:
        whole = f"{quote(table.database)}.{quote(table.name)}"
        rows_of(connection, f"SELECT * FROM {whole} LIMIT 0")  # noqa: S608
    except SourceError as error:
        if "denied" not in error.message:
            raise
        hidden, words = True, error.message
    if hidden:
        raise SchemaError(
            f"table {name}: this user may not read every column of it ({words})",
            table=name,
            next_step="Grant SELECT on the whole table; a column that is marked `pci: never` is "
            "never selected",
        )


def read_samples(
    connection: Connection[Any], table: SourceTable, limit: int = 200
) -> dict[str, list[str]]:
    """Up to ``limit`` rows' non-NULL texts per column of text or bytes, for guessing at personal
    data; bytes that are no text are left out.

    The rows are the first that the server returns; nothing of them is kept or logged.
    """
    kinds = {c.name: c.data_type for c in table.columns if c.charset or c.data_type in _SAMPLED}
    if not kinds:
        return {}
    # Bytes come as they are: servers differ in what they make of bytes that are no text.
    columns = ", ".join(
        f"LEFT({quote(n)}, 4000)" if kind in BYTES else f"CAST({quote(n)} AS CHAR)"
        for n, kind in kinds.items()
    )
    # Not bound by the driver: a % in a name would be taken for a place to fill in.
    sql = f"SELECT {columns} FROM {quote(table.database)}.{quote(table.name)} LIMIT {int(limit)}"  # noqa: S608
    found = rows_of(connection, sql)
    return {n: texts_of(row[i] for row in found) for i, n in enumerate(kinds)}


_SAMPLED = ("bigint", "decimal", "json", *BYTES)


def _columns_by_table(found: Sequence[Sequence[Any]]) -> Mapping[str, list[Column]]:
    by_table: dict[str, list[Column]] = {}
    for row in found:
        mariadb = bool(row[15])
        column = Column(
            name=str(row[0]),
            ordinal=int(row[1]),
            data_type=str(row[2]).lower(),
            column_type=str(row[3]),
            nullable=str(row[4]).upper() == "YES",
            charset=row[5],
            collation=_SAME.get(row[6], row[6]) if mariadb else row[6],
            precision=_integer(row[7]),
            scale=_integer(row[8]),
            length=_integer(row[9]),
            fraction=_integer(row[10]),
            extra=str(row[11] or ""),
            comment=str(row[12] or ""),
            generated=str(row[14] or ""),
            mariadb=mariadb,
            default=None if row[16] is None else str(row[16]),
        )
        by_table.setdefault(str(row[13]), []).append(column)
    return by_table


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


def refresh_statistics(connection: Connection[Any]) -> None:
    """Have MySQL 8 report current statistics of tables: its cached ones may be a day old.

    Source: MySQL 8.0 manual, 28.3.38 "The INFORMATION_SCHEMA TABLES Table".
    """
    rows_of(connection, "SET @a = 0 /*!80000 , SESSION information_schema_stats_expiry = 0 */")


def read_ddl(connection: Connection[Any], database: str, table: str) -> str:
    """The statement that would make a table, as the server prints it, without the password of
    another server that a FEDERATED table may hold.

    Raises:
        SourceError: the server could not be queried.
    """
    [(_, statement)] = rows_of(connection, f"SHOW CREATE TABLE {quote(database)}.{quote(table)}")
    return _ELSEWHERE.sub(r"\1'***'", str(statement))


_ELSEWHERE = re.compile(r"(\bCONNECTION=)'(?:[^'\\]|''|\\.)*'", re.IGNORECASE)


def read_sizes(connection: Connection[Any], database: str, table: str) -> tuple[int, int]:
    """About how many bytes a table has, and one row of it, as the server estimates."""
    refresh_statistics(connection)
    statement = (
        "SELECT DATA_LENGTH, AVG_ROW_LENGTH FROM information_schema.TABLES"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    )
    [(whole, row)] = rows_of(connection, statement, (database, table)) or [(0, 0)]
    return int(whole or 0), int(row or 0)
