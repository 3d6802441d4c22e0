"""A query that is bound to what its tables have, as others read it.

What belongs here: what is known of a bound query. What doesn't: binding
(`mirrorlake.models.spark_sql.binding.binder`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from mirrorlake.models.spark_sql.columns import NamedValue, Origin, Relation
from mirrorlake.models.spark_sql.nodes import Nodes


class Tables(Protocol):
    """What there is to read from."""

    def columns_of(self, name: str) -> Relation | None:
        """The columns of a table or model, by its name in lower case; None if there is none."""
        ...

    def names(self) -> Sequence[str]:
        """All names, to say the nearest."""
        ...


InputColumn = tuple[int, str]
"""A column of one source of a SELECT: the source's key, and the column in lower case."""


@dataclass
class Trace:
    """Which source each name of a query means, and so what a partition depends on.

    A source's key is the ``id`` of its node in FROM; the nodes live as long as the query does.

    Attributes:
        columns: ``id`` of a column's node → what it names.
        fields: ``id`` of a node that is a field of a column → that column.
        sources: ``id`` of a SELECT → the keys of its sources, in order.
        tables: key → the table that it is, in lower case.
        queries: key → the subquery or CTE that it is, and the names of its columns there.
        renamed: keys of tables whose columns have other names here: ``t AS a (x, y)``.
        outputs: ``id`` of a SELECT → its columns: name, and the expression or the column of a
            source.
        kinds: column of a source → its type.
        using: ``id`` of a join → the pairs of columns that ``USING`` makes one.
        used: ``id`` of a join → for each name under ``USING`` what both its columns are made of.
        made_of: ``id`` of a column's node, a SELECT or a set operation → of each of its columns
            the stored columns that it is made of.
        types: ``id`` of a SELECT or a set operation → the types of its columns.
        constants: ``id`` of a column's node that is a name of the model's scope → the node.
        nodes: what stands below its nodes.
    """

    columns: dict[int, InputColumn] = field(default_factory=dict[int, InputColumn])
    fields: dict[int, InputColumn] = field(default_factory=dict[int, InputColumn])
    sources: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    tables: dict[int, str] = field(default_factory=dict[int, str])
    queries: dict[int, tuple[exp.Expr, list[str]]] = field(
        default_factory=dict[int, tuple[exp.Expr, list[str]]]
    )
    renamed: set[int] = field(default_factory=set[int])
    outputs: dict[int, list[tuple[str, exp.Expr | InputColumn | None]]] = field(
        default_factory=dict[int, "list[tuple[str, exp.Expr | InputColumn | None]]"]
    )
    kinds: dict[InputColumn, str] = field(default_factory=dict[InputColumn, str])
    using: dict[int, list[tuple[InputColumn, InputColumn]]] = field(
        default_factory=dict[int, "list[tuple[InputColumn, InputColumn]]"]
    )
    used: dict[int, list[tuple[frozenset[Origin], frozenset[Origin]]]] = field(
        default_factory=dict[int, "list[tuple[frozenset[Origin], frozenset[Origin]]]"]
    )
    made_of: dict[int, tuple[frozenset[Origin], ...]] = field(
        default_factory=dict[int, "tuple[frozenset[Origin], ...]"]
    )
    types: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    constants: dict[int, exp.Column] = field(default_factory=dict[int, exp.Column])
    nodes: Nodes = field(default_factory=Nodes)


@dataclass(frozen=True)
class BoundQuery:
    """What a query gives and reads.

    Attributes:
        fields: its columns, in order.
        reads: the tables that it names, in lower case, in the order in which they are first named.
        unstable: functions in it whose value no row decides, with where they stand.
        trace: which source each of its names means.
    """

    fields: tuple[NamedValue, ...]
    reads: tuple[str, ...]
    unstable: tuple[tuple[str, tuple[int, int] | None], ...] = ()
    trace: Trace = field(default_factory=Trace)
