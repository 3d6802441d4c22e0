"""The layers that are folded into: their columns as SQL over raw, and the MERGE of changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import SecretStr

from mirrorlake.destinations.base import Identifier, as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.tables.schemas import has_original
from mirrorlake.merge.row_sql.conversions import spark_type
from mirrorlake.merge.row_sql.ranks import GONE
from mirrorlake.schema.masking import HASHABLE, keyed_hash, mask_sql
from mirrorlake.schema.own_columns import DELETED_AT, ORIGINAL
from mirrorlake.table.hash_key import unhashable, without_hash_key
from mirrorlake.table.resolve import ResolvedTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Layer:
    """One table that is folded into: its columns as (name in the lake, Iceberg type, SQL over
    raw).

    ``flags``: rows that MySQL deleted stay, and say when they were found gone.
    """

    name: str
    identifier: Identifier
    columns: tuple[tuple[str, str, str], ...]
    original: str | None
    flags: bool = False

    @property
    def stored(self) -> list[tuple[str, str]]:
        """Name and Iceberg type of every column but the originals."""
        own = [(name, kind) for name, kind, _ in self.columns]
        return [*own, *([(DELETED_AT, "timestamptz")] if self.flags else [])]

    @property
    def names(self) -> list[str]:
        """Every column, the originals last."""
        return [name for name, _ in self.stored] + ([ORIGINAL] if self.original else [])

    @property
    def definition(self) -> str:
        """By what a table is known to be made by these columns."""
        return repr((self.columns, self.original))

    def selects(self, *, originals: bool) -> list[str]:
        """Each column as SQL, the originals last.

        Args:
            originals: whether what is selected from has original texts.
        """
        found = [
            f"{with_originals(sql, originals=originals)} AS {as_sql_identifier(name)}"
            for name, _, sql in self.columns
        ]
        return [*found, *([f"{self.original} AS {ORIGINAL}"] if self.original else [])]


def check_rules(plan: ResolvedTable, hash_key: SecretStr | None) -> None:
    """Refuse rules that can't be kept for their column's type, before anything is read."""
    types = {e.name: e.iceberg for e in plan.columns}
    for column, rule in plan.rules.items():
        if rule != "hash":
            continue
        if types[column].split("(")[0] not in HASHABLE:
            raise unhashable(plan.name, column, types[column])
        if hash_key is None:
            raise without_hash_key(plan.name, column)


def deduped_layer(plan: ResolvedTable) -> Layer:
    """All columns that were read, as they are."""
    columns = tuple((e.name, e.iceberg, as_sql_identifier(e.name)) for e in plan.columns)
    original = as_sql_identifier(ORIGINAL) if plan.originals else None
    return Layer("deduped", plan.deduped, columns, original, flags(plan))


def clean_layer(plan: ResolvedTable) -> Layer:
    """The columns that people may see, by the contract's rules."""
    rules = plan.clean_rules
    columns = (clean_column(e.name, e.iceberg, rules.get(e.name)) for e in plan.columns)
    shown = tuple(column for column in columns if column is not None)
    return Layer("clean", plan.clean, shown, _shown_originals(plan), flags(plan))


def flags(plan: ResolvedTable) -> bool:
    """Whether rows that MySQL deleted stay, with a flag."""
    return plan.contract.deletes == "flag"


def clean_column(column: str, iceberg: str, rule: str | None) -> tuple[str, str, str] | None:
    """A column of clean as (name, Iceberg type, SQL over deduped); None if it is not to be there.

    Args:
        column: as deduped spells it.
        iceberg: its type in deduped.
        rule: what the contract says of it (``pii``), if anything.
    """
    name = as_sql_identifier(column)
    if rule == "drop":
        return None
    if rule == "null":
        return column, iceberg, f"CAST(NULL AS {spark_type(iceberg)})"
    if rule == "mask":
        return column, "string", mask_sql(name)
    if rule == "hash":
        return column, "string", f"mirror_hash({_as_text(column, iceberg)})"
    return column, iceberg, name


def _as_text(name: str, iceberg: str) -> str:
    """A hashable column's value and original text, as the two arguments of the keyed hash."""
    column = as_sql_identifier(name)
    value = f"CAST({column} AS {spark_type(iceberg)})"
    # `fold` puts the original's SQL there. No name in MySQL holds a NUL, so none is taken for it.
    return f"{value}, \0{name}\0"


def _shown_originals(plan: ResolvedTable) -> str | None:
    """The originals without the entries of ruled columns, NULL where none is left."""
    rules = plan.clean_rules
    if not plan.had_originals and not has_original(
        [e for e in plan.columns if e.name not in rules]
    ):
        return None
    # Whatever its type is now: a row that MySQL has no more may have one of its type of then.
    return originals_without([e.name for e in plan.columns if e.name in rules])


def originals_without(ruled: Sequence[str], original: str = as_sql_identifier(ORIGINAL)) -> str:
    """The originals of deduped, in its SQL, without the entries of some columns, NULL where none is
    left."""
    if not ruled:
        return original
    names = ", ".join(text_literal(name) for name in ruled)
    kept = f"filter({original}, x -> x.column NOT IN ({names}))"
    return f"CASE WHEN size({kept}) > 0 THEN {kept} END"


def clean_view_sql(plan: ResolvedTable, over: Identifier | None = None) -> str:
    """The clean view's text.

    Args:
        over: what it shows, in deduped's columns; by default deduped.
    """
    layer = clean_layer(plan)
    columns = [(name, sql) for name, _, sql in layer.columns]
    # In the order of `Layer.names`: a view whose columns stand otherwise was replaced by somebody.
    if layer.flags:
        columns.append((DELETED_AT, as_sql_identifier(DELETED_AT)))
    if layer.original:
        columns.append((ORIGINAL, layer.original))
    return view_sql(columns, over or plan.deduped)


def view_sql(columns: Iterable[tuple[str, str]], over: Identifier) -> str:
    """The text of a view over one table, of columns with their SQL."""
    listed = ", ".join(f"{sql} AS {as_sql_identifier(name)}" for name, sql in columns)
    return f"SELECT {listed} FROM {over.sql}"  # noqa: S608


def merge_sql(
    plan: ResolvedTable,
    layer: Layer,
    bounds: str = "",
    *,
    compares: bool = True,
    whole: bool = False,
    target: str | None = None,
) -> str:
    """The MERGE of ``mirror_changes`` into a layer.

    Args:
        bounds: a condition that every row of the layer fulfils whose key is one of the changes'.
        compares: whether a row that is equal already is left alone; without, the MERGE reads of
            the layer its key alone.
        whole: whether the changes are the whole table: what they lack is gone.
        target: a branch of the layer, as Spark takes it; by default its main.
    """
    names = layer.names
    on = same_key(plan, layer, bounds)
    differs = " OR ".join(
        f"NOT ({same_value(name, kind)})"
        for name, kind in layer.stored
        # 0.0 and -0.0 are one key to the server and to SQL, and two values.
        if name not in plan.key or kind in ("float", "double")
    )
    if layer.original:
        # An engine may have written "no originals" as an empty list; to readers both are none.
        differs += (" OR " if differs else "") + f"NOT ({same_value(ORIGINAL, 'list')})"
    columns = [as_sql_identifier(name) for name in names]
    assignments = ", ".join(f"t.{c} = s.{c}" for c in columns)
    clauses = [*_flagging(layer), f"WHEN MATCHED AND s.{GONE} THEN DELETE"]
    if differs:
        which = f" AND ({differs})" if compares else ""
        clauses.append(f"WHEN MATCHED{which} THEN UPDATE SET {assignments}")
    values = ", ".join(f"s.{c}" for c in columns)
    new = f"WHEN NOT MATCHED AND NOT s.{GONE} THEN INSERT"
    clauses.append(f"{new} ({', '.join(columns)}) VALUES ({values})")
    if whole:
        clauses.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
    into = target or layer.identifier.sql
    return f"MERGE INTO {into} t USING mirror_changes s ON {on} " + " ".join(clauses)


def replace_sql(
    plan: ResolvedTable, layer: Layer, bounds: str = "", target: str | None = None
) -> str:
    """The MERGE of ``mirror_changes`` that believes nothing of what a layer holds of their keys:
    every row of a key goes, however many there are, and its row among the changes comes.

    Each change is there twice: once to match, and once to match nothing and be inserted.

    Args:
        bounds, target: as for `merge_sql`.
    """
    names = layer.names
    columns = [as_sql_identifier(name) for name in names]
    values = ", ".join(f"s.{c}" for c in columns)
    source = f"SELECT *, explode(array(true, false)) AS {_OUT} FROM mirror_changes"  # noqa: S608
    return (
        f"MERGE INTO {target or layer.identifier.sql} t USING ({source}) s"  # noqa: S608
        f" ON s.{_OUT} AND {same_key(plan, layer, bounds)}"
        f" {' '.join([*_flagging(layer), 'WHEN MATCHED THEN DELETE'])}"
        f" WHEN NOT MATCHED AND NOT s.{_OUT} AND NOT s.{GONE}"
        f" THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    )


_OUT = "_mirror_out"


def _flagging(layer: Layer) -> list[str]:
    """The clause by which a tombstone flags a row; a key that is known by another text now has
    none, and its old row goes."""
    if not layer.flags:
        return []
    since = f"coalesce(t.{DELETED_AT}, s.{DELETED_AT})"
    found = f"s.{GONE} AND s.{DELETED_AT} IS NOT NULL"
    return [f"WHEN MATCHED AND {found} THEN UPDATE SET t.{DELETED_AT} = {since}"]


def same_key(plan: ResolvedTable, layer: Layer, bounds: str = "") -> str:
    """SQL of whether ``t`` and ``s`` are of one key, within the bounds."""
    on = " AND ".join(_same_key_part(plan, layer, name) for name in plan.key)
    return f"{on} AND {bounds}" if bounds else on


def unplaced_key(plan: ResolvedTable) -> tuple[str, ...]:
    """Key columns whose values may have no place in their type (a zero date, a text that UTF-8
    can't hold): several keys then share one value, and their original texts tell them apart."""
    originals = {e.name for e in plan.columns if e.has_original}
    return tuple(name for name in plan.key if name in originals)


def original_of(name: str, table: str = "") -> str:
    """SQL of a column's original text in a row, NULL where there is none."""
    of = f"{table}." if table else ""
    return f"try_element_at(filter({of}{ORIGINAL}, x -> x.column = {text_literal(name)}), 1).text"


def with_originals(sql: str, *, originals: bool) -> str:
    """Put the SQL of a column's original text where a hash's second argument asks for it."""
    before, found, rest = sql.partition("\0")
    if not found:
        return sql
    name, _, after = rest.partition("\0")
    text = original_of(name) if originals else "CAST(NULL AS STRING)"
    return f"{before}{text}{after}"


def register_hash(spark: SparkSession, key: SecretStr | None) -> None:
    """Give a session the keyed hash, as the columns of a layer call it; none without a key."""
    if key is not None:
        function = keyed_hash(key.get_secret_value().encode())
        spark.udf.register("mirror_hash", function, "string")


def _same_key_part(plan: ResolvedTable, layer: Layer, name: str) -> str:
    column = as_sql_identifier(name)
    if name not in unplaced_key(plan):
        return f"t.{column} = s.{column}"
    same = f"t.{column} <=> s.{column}"
    if layer.original is None or (layer.name == "clean" and name in plan.rules):
        return same  # a keyed hash is of the original too
    return f"{same} AND {original_of(name, 't')} <=> {original_of(name, 's')}"


def same_value(name: str, kind: str, s: str = "s") -> str:
    """SQL of whether ``t`` and ``s`` hold the same in a column, NULLs being the same."""
    column = as_sql_identifier(name)
    if kind in ("float", "double"):
        # SQL calls -0.0 and 0.0 equal; their texts tell them apart, and no two other doubles share
        # one.
        return f"CAST(t.{column} AS STRING) <=> CAST({s}.{column} AS STRING)"
    return f"t.{column} <=> {s}.{column}"
