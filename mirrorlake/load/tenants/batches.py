"""Batches: tenants whose tables are read alike, in one statement.

A statement for each tenant would cost a session each. So the rows of up to `MOST` databases are
read by one ``UNION ALL``, which is one consistent read of them all (on InnoDB); each row carries
the number of its tenant. Before it, in the same state, the server counts and digests the rows of
each: one row of numbers, from a join of as many tables of one row, of which MySQL allows 61.

Source: MySQL 8.0 manual, 15.2.18 "UNION Clause", 10.2.1 "Optimizing SELECT Statements" (at most 61
tables in a join).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from mirrorlake.destinations.iceberg.tables.tenants import bucket_of
from mirrorlake.load.chunks.statements import ChunkPlan, select_list
from mirrorlake.sources.mysql.reading.lock_watch import mark
from mirrorlake.sources.mysql.sessions.connect import SourcePosition
from mirrorlake.sources.mysql.tables import quote
from mirrorlake.table.resolve import ResolvedTable

MOST: Final = 50
"""Tenants of one statement."""
MOST_ROWS: Final = 200_000
"""A tenant that is estimated to have more is read by itself; smaller ones together up to this."""
MOST_TEXT: Final = 512 * 2**10
"""Characters of one statement: a server takes 4 MB at least by default."""
TENANT: Final = "t"
"""The column with the number of a row's tenant in its batch."""


@dataclass(frozen=True)
class Batch:
    """Tenants of one source whose tables have the same columns, read by the same expressions."""

    plans: tuple[ResolvedTable, ...]

    @property
    def lead(self) -> ResolvedTable:
        """Any of them: they are read alike."""
        return self.plans[0]

    @property
    def databases(self) -> list[str]:
        return [plan.table.database for plan in self.plans]

    def without(self, databases: Iterable[str]) -> Batch:
        """The same batch without some tenants."""
        left = set(databases)
        return Batch(tuple(p for p in self.plans if p.table.database not in left))

    def halves(self) -> tuple[Batch, Batch]:
        """The batch in two."""
        middle = len(self.plans) // 2
        return Batch(self.plans[:middle]), Batch(self.plans[middle:])


def plan_batches(plans: Iterable[ResolvedTable]) -> list[Batch]:
    """Tenants in batches: neighbours in one bucket together, so that a batch writes few files."""
    alike: dict[Any, list[ResolvedTable]] = defaultdict(list)
    for plan in plans:
        alike[_read_alike(plan)].append(plan)
    return [batch for group in alike.values() for batch in _cut(group)]


def _read_alike(plan: ResolvedTable) -> tuple[object, ...]:
    """What two tenants must have in common to be read by one statement: in a UNION, columns of two
    charsets would be converted to one."""
    columns = tuple(
        (c.name, c.column_type, c.charset, c.collation, c.nullable) for c in plan.table.columns
    )
    return (plan.source.name, plan.table.engine.lower(), plan.columns, columns)


def _cut(plans: list[ResolvedTable]) -> Iterable[Batch]:
    plans = sorted(plans, key=lambda p: (bucket_of(p.table.database), p.table.database))
    text = 200 * (len(plans[0].columns) + 1)
    most = max(1, min(MOST, MOST_TEXT // text))
    held: list[ResolvedTable] = []
    rows = 0
    for plan in plans:
        size = plan.table.estimated_rows
        if held and (len(held) == most or rows + size > MOST_ROWS):
            yield Batch(tuple(held))
            held, rows = [], 0
        held.append(plan)
        rows += size
    if held:
        yield Batch(tuple(held))


def rows_statement(
    batch: Batch, chunk: ChunkPlan, server: SourcePosition, session: int | None = None
) -> str:
    """All rows of a batch, each with its tenant's number."""
    columns = ", ".join(select_list(chunk, server, session))
    selects = [
        f"SELECT {columns}, {number} AS {TENANT} FROM {_name(plan)}"  # noqa: S608
        for number, plan in enumerate(batch.plans)
    ]
    first, *others = selects
    marked = first.replace("SELECT ", f"SELECT /* {mark(chunk.load_id)} */ ", 1)
    return " UNION ALL ".join([marked, *others])


def digests_statement(batch: Batch, digest: str, load_id: str) -> str:
    """Number and digest of each tenant's rows, in one row.

    Args:
        digest: SQL of a row's.
    """
    parts = [
        f"(SELECT COUNT(*) AS n, SUM({digest}) AS d FROM {_name(plan)}) AS q{number}"  # noqa: S608
        for number, plan in enumerate(batch.plans)
    ]
    columns = ", ".join(f"q{number}.n, q{number}.d" for number in range(len(parts)))
    return f"SELECT /* {mark(load_id)} */ {columns} FROM {', '.join(parts)}"  # noqa: S608


def _name(plan: ResolvedTable) -> str:
    return f"{quote(plan.table.database)}.{quote(plan.table.name)}"
