"""The text of a first model over a mirrored table: its rows by the day on which they were created,
and a view of them that has the newest loads, too.

What belongs here: texts, from what is known of a table. What doesn't: looking that up and writing
files (`mirrorlake.models.generate.generate`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sqlglot.dialects.spark import Spark

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.serving.catalogue import MirroredTable

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = ("created_day", "day_of_creation", "generated_created_day")
"""What a partition's name may be: the first that no column has."""


@dataclass(frozen=True)
class DomainTable:
    """A mirrored table, as models of it are written.

    Attributes:
        source: the layer that they read.
        key: its columns; empty where it has none, or their values need not be in its columns.
        created: the column by whose day they are partitioned; None: they are not.
        first: the first day of that column, from which on each has a partition.
        last: the last that has one, of a table whose rows are all old; None: the days go on.
    """

    source: MirroredTable
    key: tuple[str, ...]
    created: str | None = None
    first: date | None = None
    last: date | None = None

    @property
    def day(self) -> str:
        """The name of the partitions."""
        taken = {name.lower() for name, _, _ in self.source.columns}
        more = (f"{_NAMES[-1]}_{number}" for number in itertools.count(2))
        return next(name for name in itertools.chain(_NAMES, more) if name not in taken)


def model_stem(table: str) -> str:
    """A name that a model can have, of a table; two tables never share one.

    >>> model_stem("shop__orders_2"), model_stem("Order Details"), model_stem("2024")
    ('shop__orders_2', 'order_details_fe3ac0', 't_2024_655773')
    """
    plain = re.sub(r"[^a-z0-9_]+", "_", table.lower())
    plain = plain if "a" <= plain[:1] <= "z" else f"t_{plain}"
    if plain == table:
        return plain
    return f"{plain[:80]}_{hashlib.sha256(table.encode()).hexdigest()[:6]}"


def domain_text(table: DomainTable) -> str:
    """The model with the table's rows: a partition for each day on which some were created, the
    first one with all that is older, or has no day, and the last one with all that is newer."""
    shown = table.source.contract.name
    by = ", by the day on which they were created" if table.created else ""
    lines = [f"description: {_quoted(f'The rows of {shown}{by}')}", *_owner(table)]
    if table.created and table.first:
        end = f"'{table.last + timedelta(days=1)}'" if table.last else "CURRENT_DATE"
        lines += ["for:", f"  {table.day}: TIMESERIES('{table.first}', {end}, 'P1D')"]
    if table.key:
        key = ", ".join(map(_quoted, table.key))
        lines += ["expect:", f"  unique: [[{key}]]", f"  not_null: [{key}]"]
    return "\n".join(["---", *lines, "---", *_query(table), ""])


def stream_text(table: DomainTable) -> str:
    """The stream view of the same rows."""
    words = _quoted(f"The rows of {table.source.contract.name}, with its newest loads")
    lines = [f"description: {words}", *_owner(table), "materialized: stream view"]
    return "\n".join(["---", *lines, "---", *_select(table), ""])


def _owner(table: DomainTable) -> Iterator[str]:
    """A model has one; a contract may have several."""
    for one in table.source.contract.owners[:1]:
        yield f"owner: {_quoted(one)}"


def _select(table: DomainTable) -> Iterator[str]:
    names = [_name(name) for name, _, _ in table.source.columns]
    yield "SELECT"
    yield from (f"  {name}," for name in names[:-1])
    yield f"  {names[-1]}"
    where = table.source.identifier
    yield f"FROM {_name(where.namespace)}.{_name(where.name)}"


def _query(table: DomainTable) -> Iterator[str]:
    yield from _select(table)
    if table.created and table.first:
        column, first = _name(table.created), f"DATE '{table.first}'"
        yield f"WHERE DATE({column}) = {table.day}"
        yield "  -- The first day has what is older, too, and what has no day."
        yield f"  OR ({table.day} = {first} AND (DATE({column}) < {first} OR {column} IS NULL))"
        if table.last:
            last = f"DATE '{table.last}'"
            yield "  -- Nothing was created of late: the last day would have what is."
            yield f"  OR ({table.day} = {last} AND DATE({column}) > {last})"
    if table.key:
        yield f"ORDER BY {', '.join(map(_name, table.key))}"


def _name(name: str) -> str:
    """A name as a person would write it: quoted where it has to be, or means something to SQL."""
    plain = _PLAIN.fullmatch(name) and name.upper() not in Spark.Tokenizer.KEYWORDS
    return name if plain else as_sql_identifier(name)


def _quoted(text: str) -> str:
    """A text in YAML, whatever is in it."""
    return json.dumps(text, ensure_ascii=False)


def created_column(columns: Sequence[tuple[str, str, bool]]) -> str | None:
    """The column that says when a row was created, by its name and type."""
    for name, kind, _ in columns:
        if kind in ("date", "timestamp", "timestamp_ntz") and _CREATED.fullmatch(name.lower()):
            return name
    return None


_CREATED = re.compile(
    r"(date_?|time_?|dt_?|ts_?)?(creat(ed|ion|e)|insert(ed|ion)?|added|signup|registered)"
    r"(_?(at|on|date|time|datetime|timestamp|ts|utc))*"
)
