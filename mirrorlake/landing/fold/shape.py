"""What a table of snapshots looks like, and the SQL that is made of it: cells, hashes, equality.

A *cell* is a small set of keys, chosen by a hash of the key: enough rows of a snapshot that their
digest can be kept, and few enough that one changed row does not cost many. Where the key holds the
day column, a cell lies within one day, and the digests of a day's cells show whether the day
changed; else days have cells of their own, of negative numbers, beside those of the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from mirrorlake.config.landing import Duplicates, Missing, Strategy
from mirrorlake.config.settings import WriteMode
from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.errors import ConfigError

MISSED_DAY, MISSED_FIRST = BESIDE = "missed_day", "missed_first"
"""Beside a missing key: its row's day, and the first snapshot that lacked it."""
NO_KEY, NO_DAY = -2, -1
"""Cells of rows without a key, and of days that are NULL."""
_DAY_BASE = 10_000_000
_MASK_BITS = 60
_FLOATS = ("float", "double")


@dataclass(frozen=True)
class SnapshotTable:
    """A table whose source gives full copies, as the fold needs to know it.

    Attributes:
        name: the contract's name; the table's lease is held under it.
        identifier: the lake table of current rows.
        columns: (name, Iceberg type in the specification's words), in order.
        key: the columns that tell rows apart; never NULL.
        day: the column that says a row's day (date, timestamp or timestamptz), None without.
        retention_days: how many days before the newest snapshot's a row's day may lie; None: any.
        missing: what becomes of rows that a newer snapshot lacks.
        duplicates: what becomes of a snapshot that holds a key twice.
        shrink_limit: the share of its rows by which a snapshot may not be smaller than the last;
            None: any.
        uncompared: columns that alone make no row a changed one (the source's own number of the
            copy).
        write_mode: how the rows are changed; the side tables always merge-on-read.

    Raises:
        ConfigError: the key is empty, unknown or a FLOAT; the day is unknown or no day.
    """

    name: str
    identifier: Identifier
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    day: str | None = None
    retention_days: int | None = None
    missing: Missing = "kept"
    strategy: Strategy = "auto"
    duplicates: Duplicates = "refused"
    shrink_limit: float | None = 0.9
    uncompared: tuple[str, ...] = ()
    write_mode: WriteMode = "merge-on-read"

    def __post_init__(self) -> None:
        types = dict(self.columns)
        if not self.key:
            raise self._refused("a snapshot can't be folded without a key", "Name its key columns")
        for name in self.key:
            if name.casefold() in BESIDE:
                raise self._refused(
                    f"its key names {name!r}, which the list of missing keys has a column of",
                    "Call it otherwise in the snapshots",
                )
            if name not in types:
                raise self._refused(f"its key names {name!r}, which is no column", "Name a column")
            if types[name] in _FLOATS or name in self.uncompared:
                raise self._refused(
                    f"{name!r}, which is {types[name]}, can't be in its key",
                    "0.0 and -0.0 are one key to SQL and two values: name other columns",
                )
        if self.day is not None and types.get(self.day) not in ("date", "timestamp", "timestamptz"):
            raise self._refused(
                f"its day column {self.day!r} is {types.get(self.day, 'no column')}",
                "Name a date, timestamp or timestamptz",
            )
        if self.retention_days is not None and self.day is None:
            raise self._refused("retention_days needs a day column", "Name the day column")

    def _refused(self, words: str, step: str) -> ConfigError:
        return ConfigError(f"table {self.name}: {words}", table=self.name, next_step=step)

    # --- names ------------------------------------------------------------------------------------

    @property
    def missing_rows(self) -> Identifier:
        """The side table of keys that the newest snapshots lack: key, day, missing since."""
        return Identifier(f"{self.identifier.namespace}__side", f"{self.identifier.name}__missing")

    @property
    def cells(self) -> Identifier:
        """The side table of the newest snapshot's digests by cell."""
        return Identifier(f"{self.identifier.namespace}__side", f"{self.identifier.name}__cells")

    @cached_property
    def key_sql(self) -> tuple[str, ...]:
        return tuple(as_sql_identifier(name) for name in self.key)

    @cached_property
    def others(self) -> tuple[str, ...]:
        """All columns but the key's, quoted."""
        return tuple(as_sql_identifier(name) for name, _ in self.columns if name not in self.key)

    @property
    def in_days(self) -> bool:
        """Whether a key lies in one day for good: the day is part of it."""
        return self.day is not None and self.day in self.key

    @property
    def compared(self) -> tuple[tuple[str, str], ...]:
        return tuple((n, t) for n, t in self.columns if n not in self.uncompared)

    # --- SQL of one row ---------------------------------------------------------------------------

    def day_sql(self, of: str = "") -> str:
        """The row's day as a DATE; NULL where the table has no day column."""
        if self.day is None:
            return "CAST(NULL AS DATE)"
        return f"CAST({of}{as_sql_identifier(self.day)} AS DATE)"

    def hash_sql(self, of: str = "") -> str:
        """A hash of a row's key."""
        return f"xxhash64({', '.join(of + name for name in self.key_sql)})"

    def same_key_sql(self, a: str, b: str) -> str:
        """Whether two rows are of one key, such that Spark looks for them by the hash alone: it
        finds and keeps a number several times as fast as a row."""
        parts = [f"({a}{n} >= {b}{n} AND {a}{n} <= {b}{n})" for n in self.key_sql]
        return " AND ".join([f"{self.hash_sql(a)} = {self.hash_sql(b)}", *parts])

    def cell_sql(self, slots: int, of: str = "") -> str:
        """The cell of a row's key: a number that no day's cell has."""
        slot = f"({self.hash_sql(of)} & {slots - 1}L)"
        if not self.in_days:
            null = " OR ".join(f"{of}{name} IS NULL" for name in self.key_sql)
            return f"IF({null}, {NO_KEY}L, {slot})"
        # Days before 1970 are negative: their cells must not be.
        days = f"(CAST(unix_date({self.day_sql(of)}) AS BIGINT) + {_DAY_BASE}L)"
        null = " OR ".join(f"{of}{name} IS NULL" for name in self.key_sql)
        return f"IF({null}, {NO_KEY}L, {days} * {slots}L + {slot})"

    def day_cell_sql(self) -> str:
        """The cell of a row's day, in tables whose key does not hold it."""
        return f"coalesce(-CAST(unix_date({self.day_sql()}) AS BIGINT) - {_DAY_BASE}L, {NO_DAY}L)"

    def day_of_cell(self, cell: int, slots: int) -> date | None:
        """The day that a cell belongs to; None for NULL.

        >>> from mirrorlake.destinations.base import Identifier
        >>> t = SnapshotTable("t", Identifier("n", "t"), (("d", "date"),), ("d",), "d")
        >>> t.day_of_cell((_DAY_BASE + 1) * 16 + 3, 16)
        datetime.date(1970, 1, 2)
        """
        if cell == NO_DAY:
            return None
        number = cell // slots - _DAY_BASE if cell >= 0 else -cell - _DAY_BASE
        return date.fromordinal(date(1970, 1, 1).toordinal() + number)

    def hashes_sql(self) -> tuple[str, str]:
        """Two hashes of 64 bits over the compared columns.

        Spark's hash skips NULLs and takes -0.0 for 0.0, so which columns are NULL, and which
        floats are -0.0, is hashed first.
        """
        columns = [(as_sql_identifier(n), t) for n, t in self.compared]
        flags = [f"{n} IS NULL" for n, _ in columns if n not in self.key_sql]
        flags += [f"{n} = 0 AND CAST({n} AS STRING) = '-0.0'" for n, t in columns if t in _FLOATS]
        masks = [
            " + ".join(f"IF({flag}, {1 << i}L, 0L)" for i, flag in enumerate(part))
            for part in _parts(flags)
        ]
        listed = ", ".join([*masks, *(n for n, _ in columns)])
        return f"xxhash64(1, {listed})", f"xxhash64(2, {listed})"

    def differs_sql(self, a: str, b: str) -> str:
        """Whether two rows of one key differ in a compared column, by the values themselves."""
        columns = [(as_sql_identifier(n), t) for n, t in self.compared if n not in self.key]
        return " OR ".join(_differ(f"{a}.{n}", f"{b}.{n}", t) for n, t in columns) or "FALSE"

    def order_sql(self) -> str:
        """An order of the rows of one key in one snapshot that tells any two different rows apart:
        by day, then column by column."""
        values = [_form(as_sql_identifier(n), t) for n, t in self.columns]
        return f"struct({', '.join([self.day_sql(), *values])})"


def _differ(one: str, other: str, kind: str) -> str:
    """Whether two values differ; SQL calls -0.0 and 0.0 equal, and to write every text is slow."""
    if kind not in _FLOATS:
        return f"NOT ({one} <=> {other})"
    signs = f"{one} <=> 0 AND CAST({one} AS STRING) <> CAST({other} AS STRING)"
    return f"(NOT ({one} <=> {other}) OR ({signs}))"


def _form(column: str, kind: str) -> str:
    """A value such that equal forms are equal values: SQL calls -0.0 and 0.0 equal."""
    return f"CAST({column} AS STRING)" if kind in _FLOATS else column


def _parts(flags: Sequence[str]) -> list[Sequence[str]]:
    return [flags[i : i + _MASK_BITS] for i in range(0, len(flags), _MASK_BITS)]


def days_sql(table: SnapshotTable, days: Sequence[date | None], of: str = "") -> str:
    """Rows of these days; of a date column, a condition that leaves out whole partitions."""
    if table.day is None:
        return "TRUE"
    column = f"{of}{as_sql_identifier(table.day)}"
    there = sorted(day for day in days if day is not None)
    parts = [f"{column} IS NULL"] if None in days else []
    if there and dict(table.columns)[table.day] == "date":
        listed = ", ".join(f"DATE'{day}'" for day in there)
        parts.append(f"{column} IN ({listed})")
    elif there:
        parts += [
            f"({column} >= {_moment(table, first)} AND {column} < {_moment(table, after)})"
            for first, after in _runs(there)
        ]
    return f"({' OR '.join(parts) or 'FALSE'})"


def before_sql(table: SnapshotTable, floor: date, of: str = "") -> str:
    """Rows whose day lies before a day; for a partition's column, by metadata alone."""
    return f"{of}{as_sql_identifier(str(table.day))} < {_moment(table, floor)}"


def _runs(days: Sequence[date]) -> list[tuple[date, date]]:
    """Days in a row as half-open ranges."""
    runs: list[tuple[date, date]] = []
    for day in days:
        after = date.fromordinal(day.toordinal() + 1)
        if runs and runs[-1][1] == day:
            runs[-1] = (runs[-1][0], after)
        else:
            runs.append((day, after))
    return runs


def _moment(table: SnapshotTable, day: date) -> str:
    kind = dict(table.columns)[str(table.day)]
    if kind == "date":
        return f"DATE'{day}'"
    if kind == "timestamp":
        return f"TIMESTAMP_NTZ'{day} 00:00:00'"
    return f"TIMESTAMP_LTZ'{day} 00:00:00+00:00'"
