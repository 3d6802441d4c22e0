"""The lake's side of a comparison: Spark's SQL over one snapshot of deduped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.proof.forms.canonical import DELETED_AT, Form
from mirrorlake.proof.forms.rows import Key, Row, RowForm, lake_number, lake_sum
from mirrorlake.proof.ranges.order import Part, among_condition
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.proof.ranges.scope import both

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = "k_"
"""The column of a temporary view that holds keys' forms."""


@dataclass(frozen=True)
class LakeSide:
    """The statements over one snapshot of a lake table, within a condition ('' for all).

    ``snapshot`` is None for a table that nothing was ever written to. ``flags``: rows that MySQL
    deleted stay there with a flag, and are none to a comparison. ``parts``: columns of the key that
    may be named in a statement; rows that are read by their keys are found faster with them.
    """

    identifier: Identifier
    snapshot: int | None
    rows: RowForm
    key_forms: tuple[Form, ...]
    where: str
    flags: bool = field(default=False, kw_only=True)
    parts: tuple[Part, ...] = field(default=(), kw_only=True)

    @property
    def name(self) -> str:
        at = f" VERSION AS OF {self.snapshot}" if self.snapshot is not None else ""
        if self.flags:
            return f"(SELECT * FROM {self.identifier.sql}{at} WHERE {DELETED_AT} IS NULL)"  # noqa: S608
        return f"{self.identifier.sql}{at}"

    @property
    def key_form(self) -> str:
        """SQL of the key's form; of the row's digest as a text, without a key."""
        if not self.key_forms:
            return self.rows.lake_digest_text
        forms = ",',',".join(form.lake for form in self.key_forms)
        return f"concat({forms})"

    def bucket(self, count: int) -> str:
        """SQL of the bucket that a row is dealt into."""
        hashed = self.key_form if self.key_forms else self.rows.lake
        return f"({lake_number(hashed, 8)} % {count})"

    def groups_sql(self, group: str, *conditions: str, without: str = "") -> str:
        """Group, rows and digest of every group; ``without``: a view of keys to leave out."""
        inner = self._rows_sql(f"{group} AS g_, {self.rows.lake_digest} AS h_", conditions, without)
        return f"SELECT g_, count(*), {lake_sum('h_')} FROM ({inner}) GROUP BY g_"  # noqa: S608

    def counts_sql(self, group: str, without: str = "") -> str:
        """Group and rows of every group."""
        inner = self._rows_sql(f"{group} AS g_", (), without)
        return f"SELECT g_, count(*) FROM ({inner}) GROUP BY g_"  # noqa: S608

    def digests_sql(self, *conditions: str, without: str = "") -> str:
        """Each row's digest and key."""
        keys = "".join(f", {form.lake} AS f{n}_" for n, form in enumerate(self.key_forms))
        return self._rows_sql(f"{self.rows.lake_digest} AS h_{keys}", conditions, without)

    def among_sql(self, view: str, keys: Sequence[Key]) -> str:
        """Each row's digest and key, of the rows under these keys, which a view holds."""
        cells = "".join(f", {form.lake} AS f{n}_" for n, form in enumerate(self.key_forms))
        columns = f"{self.key_form} AS own_, {self.rows.lake_digest} AS h_{cells}"
        names = [form.name for form in self.key_forms]
        by_name = [dict(zip(names, key, strict=True)) for key in keys]
        where = _where_of(both(self.where, among_condition(self.parts, by_name)))
        inner = f"SELECT {columns} FROM {self.name}{where}"  # noqa: S608
        return f"SELECT * FROM ({inner}) r LEFT SEMI JOIN {view} k ON r.own_ = k.{_KEY}"  # noqa: S608

    def count_sql(self) -> str:
        """How many rows there are."""
        return f"SELECT count(*) FROM {self.name}{_where_of(self.where)}"  # noqa: S608

    def whole_sql(self, view: str, keys: Sequence[Key]) -> str:
        """Whole rows under these keys, which a view holds, wherever they are."""
        cells = [cell.lake for cell in self.rows.cells]
        shown = [cell.lake_shown for cell in self.rows.cells]
        named = ", ".join(f"{sql} AS c{n}_" for n, sql in enumerate([*cells, *shown]))
        columns = f"{self.key_form} AS own_, {self.rows.strays} AS s_, {named}"
        names = [form.name for form in self.key_forms]
        by_name = [dict(zip(names, key, strict=True)) for key in keys] if names else []
        where = among_condition(self.parts, by_name) if names else self.where
        inner = f"SELECT {columns} FROM {self.name}{_where_of(where)}"  # noqa: S608
        return f"SELECT r.* FROM ({inner}) r LEFT SEMI JOIN {view} k ON r.own_ = k.{_KEY}"  # noqa: S608

    def stored_sql(self, columns: Sequence[str], keys: str) -> str:
        """Columns as they are stored, of the rows under the keys of a view."""
        named = ", ".join(as_sql_identifier(name) for name in columns)
        where = _where_of(self.where)
        inner = f"SELECT {self.key_form} AS own_, {named} FROM {self.name}{where}"  # noqa: S608
        chosen = f"({inner}) r LEFT SEMI JOIN {keys} k ON r.own_ = k.{_KEY}"
        return f"SELECT {named} FROM {chosen}"  # noqa: S608

    def _rows_sql(self, columns: str, conditions: Sequence[str], without: str) -> str:
        where = _where_of(both(self.where, *conditions))
        own = f"{self.key_form} AS own_, " if without else ""
        inner = f"SELECT {own}{columns} FROM {self.name}{where}"  # noqa: S608
        if not without:
            return inner
        return f"SELECT * FROM ({inner}) r LEFT ANTI JOIN {without} k ON r.own_ = k.{_KEY}"  # noqa: S608

    # --- reading ----------------------------------------------------------------------------------

    def read_groups(self, spark: SparkSession, statement: str) -> dict[int, Tally]:
        """What `groups_sql` says."""
        found = spark.sql(statement).collect()
        return {int(g): Tally(int(n), int(h)) for g, n, h in found}

    def read_digests(self, spark: SparkSession, statement: str) -> list[tuple[Key, int]]:
        """What `digests_sql` says; without a key, the digest stands for it."""
        found: Any = spark.sql(statement).toArrow()
        digests = [int(d) % 2**64 for d in found["h_"].to_pylist()]
        columns = [found[f"f{n}_"].to_pylist() for n, _ in enumerate(self.key_forms)]
        keys = zip(*columns, strict=True) if columns else ((str(d),) for d in digests)
        return list(zip(keys, digests, strict=True))

    def read_rows(self, spark: SparkSession, keys: Sequence[Key]) -> dict[Key, list[Row]]:
        """The rows that this snapshot has under these keys; a key may have several."""
        found: dict[Key, list[Row]] = {}
        count = len(self.rows.cells)
        at = {cell.name: number for number, cell in enumerate(self.rows.cells)}
        with key_view(spark, keys) as view:
            rows: list[Any] = spark.sql(self.whole_sql(view, keys)).collect()
        for own, strays, *cells in rows:
            forms = tuple(cells[:count])
            key = tuple(forms[at[f.name]] for f in self.key_forms) or (own,)
            row = Row(key, forms, tuple(cells[count:]), True, strays)
            found.setdefault(key, []).append(row)
        return found


def _where_of(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


@contextmanager
def key_view(spark: SparkSession, keys: Sequence[Key]) -> Iterator[str]:
    """A temporary view of keys' forms, while the block runs; its name."""
    name = f"proof_keys_{uuid4().hex[:12]}"
    # What is no UTF-8 can't be in the lake either.
    texts = [",".join(key).encode(errors="replace").decode() for key in keys]
    found: Any = spark.createDataFrame(pa.table({_KEY: pa.array(texts, pa.string())}))
    found.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        spark.catalog.dropTempView(name)
