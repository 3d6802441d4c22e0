"""Plans: what a contract and a source table make of each other, which window comes next, which
chunks.

Everything here is decided before anything is written; a contract that can't be kept is refused
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.errors import ConfigError, SchemaError
from mirrorlake.lake.catalog import Identifier
from mirrorlake.ledger import Load, Window
from mirrorlake.mysql.connect import quote, rows_of
from mirrorlake.mysql.introspect import Column, SourceTable
from mirrorlake.mysql.types import exact_columns
from mirrorlake.schema import Exact, SchemaVersion, schema_version

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TIMES = ("datetime", "timestamp", "date")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock without a zone, like DATETIME


@dataclass(frozen=True)
class TablePlan:
    """One table, its contract and its columns resolved against the server, every name as the server
    spells it."""

    contract: TableContract
    source: SourceConfig
    table: SourceTable
    columns: tuple[Exact, ...]
    version: SchemaVersion
    key: tuple[str, ...]
    cursor: Column | None
    created: Column | None
    rules: dict[str, str]

    @property
    def name(self) -> str:
        return self.contract.name

    @property
    def raw(self) -> Identifier:
        """The raw table of this schema version."""
        return Identifier(self.contract.namespaces.raw, self.version.raw_table)

    @property
    def raw_view(self) -> Identifier:
        """The view over the raw tables of all versions."""
        return Identifier(self.contract.namespaces.raw, self.contract.table)

    @property
    def deduped(self) -> Identifier:
        return Identifier(self.contract.namespaces.deduped, self.contract.table)

    @property
    def clean(self) -> Identifier:
        return Identifier(self.contract.namespaces.clean, self.contract.table)

    @property
    def collated_key(self) -> tuple[Column, ...]:
        """Key columns whose different texts may be one key to the server ('a' and 'A', 'a' and 'a
        ')."""
        columns = [self.table.column(name) for name in self.key]
        return tuple(c for c in columns if c.collation and not _by_bytes(c))

    @property
    def keeps_aliases(self) -> bool:
        """Whether raw rows carry the server's own key beside its text: an UPDATE may change the
        text of a key and leave it the same key."""
        return self.contract.mode == "incremental" and bool(self.collated_key)

    @property
    def day_column(self) -> str | None:
        """The column whose date is a row's raw day; None where the day of the load is.

        The cursor where it is a time; beside a key cursor, the contract's ``created``.
        """
        for column in (self.cursor, self.created):
            if column is not None and column.data_type in _TIMES:
                return column.name
        return None


def plan_table(contract: TableContract, source: SourceConfig, table: SourceTable) -> TablePlan:
    """Resolve a contract against the table that the server has.

    Raises:
        ConfigError: the contract names a rule that the column's type can't keep, or starts in the
        future.
        SchemaError: a column that it names is missing; the key is not unique; the cursor can be
        NULL,
            has no index, or has a type without an order.
        TypeRefused: a column can't be kept exactly.
    """
    excluded = frozenset(table.column(name).name for name in contract.excluded)
    columns = exact_columns(table, excluded)
    kept = {c.name: c for c in table.columns if c.name not in excluded}
    plan = TablePlan(
        contract=contract,
        source=source,
        table=table,
        columns=columns,
        version=schema_version(contract.table, [(c.name, c.column_type) for c in kept.values()]),
        key=tuple(table.column(name).name for name in contract.key),
        cursor=table.column(contract.cursor) if contract.cursor else None,
        created=table.column(contract.created) if contract.created else None,
        rules={table.column(name).name: str(rule) for name, rule in contract.rules.items()},
    )
    _check_names(plan)
    _check_key(plan)
    _check_cursor(plan)
    _check_rules(plan)
    return plan


def _check_names(plan: TablePlan) -> None:
    """Names of ours mean something else in raw; to Spark any case of them is one name."""
    for exact in plan.columns:
        if exact.name.casefold().startswith("_mirror_"):
            raise SchemaError(
                f"table {plan.name}: column {exact.name!r} is called as Mirrorlake's own are",
                table=plan.name,
                column=exact.name,
                next_step="Rename it in MySQL, or mark it `pci: never` to leave it out",
            )


def _check_key(plan: TablePlan) -> None:
    contract, table = plan.contract, plan.table
    if contract.mode == "incremental" and not plan.key:
        raise ConfigError(
            f"table {plan.name} has no key, and mode incremental needs one",
            table=plan.name,
            next_step="Name its unique columns as key, or use mode full",
        )
    if plan.key and not table.has_unique(plan.key):
        raise SchemaError(
            f"table {plan.name}: MySQL does not keep ({', '.join(plan.key)}) unique and NOT NULL, "
            "so it can't be the key",
            table=plan.name,
            next_step="Name the columns of its primary key or of a unique index over NOT "
            "NULL columns",
        )


def _check_cursor(plan: TablePlan) -> None:
    cursor, name = plan.cursor, plan.name
    if cursor is None:
        return
    if cursor.data_type not in (*_INTEGERS, *_TIMES):
        raise SchemaError(
            f"table {name}: cursor {cursor.name} is {cursor.column_type}: only integers "
            "and times order loads",
            next_step="Name an integer, DATE, DATETIME or TIMESTAMP column, or use mode full",
            table=name,
            column=cursor.name,
        )
    if plan.contract.mode == "incremental" and cursor.data_type in _INTEGERS:
        raise SchemaError(
            f"table {name}: cursor {cursor.name} is {cursor.column_type}: mode incremental "
            "needs a time",
            next_step="Name the column that changes with every update, or use mode append or full",
            table=name,
            column=cursor.name,
        )
    if cursor.nullable:
        raise SchemaError(
            f"table {name}: cursor {cursor.name} can be NULL, and no window would ever "
            "read such a row",
            next_step="Declare it NOT NULL in MySQL, or use mode full",
            table=name,
            column=cursor.name,
        )
    if not plan.table.led_by(cursor.name):
        raise SchemaError(
            f"table {name}: no index begins with cursor {cursor.name}: every window would "
            "read the whole table",
            next_step=f"Add an index on {cursor.name} in MySQL, or use mode full",
            table=name,
            column=cursor.name,
        )
    created = plan.created
    if created is not None and created.data_type not in _TIMES:
        raise SchemaError(
            f"table {name}: created {created.name} is {created.column_type}, not a time",
            table=name,
            column=created.name,
            next_step="Name a DATE, DATETIME or TIMESTAMP column, or leave `created` out",
        )


def _check_rules(plan: TablePlan) -> None:
    kept = {e.name: e for e in plan.columns}
    for column, rule in plan.rules.items():
        if rule == "mask" and kept[column].iceberg != "string":
            raise ConfigError(
                f"table {plan.name}: `pii: mask` on {column}, which is "
                f"{kept[column].iceberg}: only texts can be masked",
                table=plan.name,
                column=column,
                next_step="Use null, drop or hash",
            )
    if plan.contract.mode == "append" and not plan.key and not _by_time(plan):
        raise ConfigError(
            f"table {plan.name}: mode append without a key needs a time cursor, whose days "
            "can be replaced",
            table=plan.name,
            next_step="Name a key or a time cursor, or use mode full",
        )


def _by_time(plan: TablePlan) -> bool:
    return plan.cursor is not None and plan.cursor.data_type in _TIMES


# --- windows --------------------------------------------------------------------------------------


def plan_window(plan: TablePlan, last: Load | None, clock: datetime) -> Window:
    """The window that comes next: from the last success's end, less the overlap; open above.

    ``clock`` is the source's, in UTC. It decides the day of rows that have none of their own, and
    nothing else: a window has no upper bound, so a row dated in the future is read, not left out.
    """
    day = clock.date()
    if plan.contract.mode == "full" or plan.cursor is None:
        return Window("full", None, None, day)
    if last is None or last.window.hi is None:
        start = plan.contract.start if _by_time(plan) else None
        return Window("initial", _start_text(start), None, day)
    if not _by_time(plan):
        return Window("live", str(int(last.window.hi) - plan.contract.overlap_keys), None, day)
    hi = datetime.fromisoformat(last.window.hi).replace(tzinfo=UTC)
    back = hi - plan.contract.overlap
    if plan.contract.start is not None:
        back = max(back, _first_moment(plan, plan.contract.start))
    return Window("live", back.replace(tzinfo=None).isoformat(sep=" "), None, day)


def _first_moment(plan: TablePlan, start: date) -> datetime:
    """When (UTC) the contract's first day begins in the calendar of the cursor."""
    first = datetime.combine(start, time(), UTC)
    if plan.cursor is None or plan.cursor.data_type == "timestamp":
        return first
    return first - _lowest_offset(plan.source.zone, first.replace(tzinfo=None))


def _start_text(start: date | None) -> str | None:
    if start is None:
        return None
    return datetime.combine(start, time()).isoformat(sep=" ")


def lower_bound(plan: TablePlan, window: Window) -> str:
    """The window's lower bound as a condition in SQL, '' without one.

    The bound is UTC; a DATETIME cursor is compared in the zone in which the application writes it.
    A zone that turns its clocks back writes an hour twice: the lower of its offsets is taken, which
    reads an hour more and loses nothing.
    """
    cursor = plan.cursor
    if window.lo is None or cursor is None:
        return ""
    name = quote(cursor.name)
    if cursor.data_type in _INTEGERS:
        return f"{name} >= {int(window.lo)}"
    if not plan.key:
        return _day_bound(cursor, replaced_from(plan, window))
    at = datetime.fromisoformat(window.lo)
    if window.kind == "initial":
        # The contract's first day, in the calendar in which the raw day of a row is told.
        return _day_bound(cursor, at.date())
    # A row written just after a moment carries it cut to the column's digits: so is the bound.
    step = 10 ** (6 - (cursor.fraction or 0))
    at -= timedelta(microseconds=at.microsecond % step)
    return time_bound(cursor, at, plan.source.zone)


def replaced_from(plan: TablePlan, window: Window) -> date:
    """The first raw day that a window of a table without a key reads again, and replaces, whole:
    there a repeated row can't be told from a second one."""
    at = datetime.fromisoformat(str(window.lo))
    if plan.cursor is None or plan.cursor.data_type == "timestamp":
        return at.date()
    return (at + _lowest_offset(plan.source.zone, at)).date()


def _day_bound(cursor: Column, day: date) -> str:
    """``cursor >= day``, in the calendar in which the raw day of a row is told."""
    if cursor.data_type == "timestamp":
        return time_bound(cursor, datetime.combine(day, time()), ZoneInfo("UTC"))
    return f"{quote(cursor.name)} >= '{day.isoformat()}'"


def time_bound(cursor: Column, at: datetime, zone: ZoneInfo, operator: str = ">=") -> str:
    """``cursor >= at`` (or ``<``) as SQL that any session evaluates alike; ``at`` is UTC without a
    zone."""
    name = quote(cursor.name)
    if cursor.data_type == "timestamp":
        seconds = (at - _EPOCH) / timedelta(microseconds=1) / 1e6
        exact = f"UNIX_TIMESTAMP({name}) {operator} {_decimal_seconds(at)}"
        # FROM_UNIXTIME is ambiguous where the server's zone turns back: the index range is wider
        # by a
        # day, and the instant itself decides.
        edge = int(seconds) + (-86_400 if operator == ">=" else 86_400)
        return f"({name} {operator} FROM_UNIXTIME({max(edge, 1)}) AND {exact})"
    wall = at + _lowest_offset(zone, at)
    if cursor.data_type == "date":
        return f"{name} {operator} '{wall.date().isoformat()}'"
    return f"{name} {operator} '{wall.isoformat(sep=' ', timespec='microseconds')}'"


def _decimal_seconds(at: datetime) -> str:
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"


def _lowest_offset(zone: ZoneInfo, at: datetime) -> timedelta:
    """The smallest UTC offset of the zone within a year around ``at``."""
    around = (at + timedelta(days=d) for d in range(-366, 367, 7))
    return min(zone.utcoffset(t.replace(tzinfo=zone)) or timedelta() for t in around)


# --- chunks ---------------------------------------------------------------------------------------


def plan_chunks(
    connection: Connection[Any], plan: TablePlan, window: Window, rows_per_chunk: int
) -> tuple[str, ...]:
    """The window cut into conditions that cover it exactly once, under the server's comparison.

    The first chunk is open below and the last open above, so rows outside the statistics are read
    too. Full tables and live windows are one chunk: one statement is one consistent read. A large
    initial load is cut by a column of the key: so a load reads a key once, whatever happens to its
    row meanwhile.
    """
    base = lower_bound(plan, window)
    pieces = -(-plan.table.estimated_rows // rows_per_chunk)
    column = _split_column(plan)
    if window.kind != "initial" or pieces < 2 or column is None:
        return (base,)
    bounds = _bounds(connection, plan, column, base, pieces)
    ranges = zip([None, *bounds], [*bounds, None], strict=True)
    return tuple(_joined(base, _range(column, lo, hi)) for lo, hi in ranges)


def _split_column(plan: TablePlan) -> Column | None:
    if plan.cursor is not None and plan.cursor.name in plan.key:
        return plan.cursor
    first = plan.table.column(plan.key[0]) if plan.key else None
    return first if first and first.data_type in (*_INTEGERS, *_TIMES) else None


def _bounds(
    connection: Connection[Any], plan: TablePlan, column: Column, base: str, pieces: int
) -> list[Any]:
    """Inner bounds between the column's lowest and highest value, evenly spaced."""
    name = quote(column.name)
    where = f" WHERE {base}" if base else ""
    whole = f"{quote(plan.table.database)}.{quote(plan.table.name)}"
    sql = f"SELECT MIN({name}), MAX({name}) FROM {whole}{where}"  # noqa: S608
    low, high = rows_of(connection, sql)[0]
    if column.data_type in _INTEGERS:
        return _evenly(low, high, pieces)
    if not isinstance(low, date) or not isinstance(high, date):
        return []  # empty, or a zero date, which has no place on a scale
    first, last = _date(low).toordinal(), _date(high).toordinal()
    return [date.fromordinal(day) for day in _evenly(first, last, pieces)]


def _date(value: date) -> date:
    return value.date() if isinstance(value, datetime) else value


def _evenly(low: int | None, high: int | None, pieces: int) -> list[int]:
    """Up to ``pieces - 1`` increasing inner bounds of [low, high].

    >>> _evenly(0, 100, 4)
    [25, 50, 75]
    >>> _evenly(5, 6, 4)
    [6]
    >>> _evenly(None, None, 4)
    []
    """
    if low is None or high is None or high <= low:
        return []
    span = high - low
    return sorted({low + -(-span * i // pieces) for i in range(1, pieces)} - {low})


def _range(column: Column, lo: Any, hi: Any) -> str:
    parts: list[str] = []
    for operator, bound in ((">=", lo), ("<", hi)):
        if bound is None:
            continue
        if isinstance(bound, int):
            parts.append(f"{quote(column.name)} {operator} {bound}")
        elif column.data_type == "timestamp":
            at = datetime.combine(bound, time())
            parts.append(time_bound(column, at, ZoneInfo("UTC"), operator))
        else:
            parts.append(f"{quote(column.name)} {operator} '{bound.isoformat()}'")
    return " AND ".join(parts)


def _joined(*conditions: str) -> str:
    return " AND ".join(f"({c})" for c in conditions if c)


def _no_pad(column: Column) -> bool:
    """Whether trailing spaces count in comparisons: in UCA 9.0.0 and MariaDB's nopad collations."""
    return "_0900_" in (column.collation or "") or "_nopad_" in (column.collation or "")


def _by_bytes(column: Column) -> bool:
    """Whether equal keys have equal texts. A CHAR never holds the trailing spaces that it would
    ignore."""
    binary = (column.collation or "").endswith("_bin")
    return binary and (column.data_type == "char" or _no_pad(column))


def key_expression(plan: TablePlan) -> str | None:
    """SQL of one binary value per key under the server's collation, or None where texts tell keys
    apart.

    Each text column's weights (padded to its full length, so that a collation that ignores trailing
    spaces gives equal weights) are hashed apart, then together: joined weights would not be
    injective.

    Source: MySQL 8.0 manual, 12.8 "String Functions", WEIGHT_STRING.
    """
    if not plan.keeps_aliases:
        return None
    parts: list[str] = []
    for name in plan.key:
        column = plan.table.column(name)
        if column in plan.collated_key:
            padded = "" if _no_pad(column) else f" AS CHAR({column.length or 1})"
            weights = f"WEIGHT_STRING({quote(name)}{padded})"
            parts.append(f"SHA2({weights}, 256)")
        else:
            parts.append(f"SHA2(CAST({quote(name)} AS CHAR), 256)")
    joined = parts[0] if len(parts) == 1 else f"SHA2(CONCAT({', '.join(parts)}), 256)"
    return f"UNHEX({joined})"
