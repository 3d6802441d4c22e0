"""The key of a table, as far as both sides order it: what chunks and ranges can be made of."""

from __future__ import annotations

from mirrorlake.errors import ConfigError
from mirrorlake.proof.ranges.named_ranges import Named, closed_span, integer_range
from mirrorlake.proof.ranges.order import Part, ordered_parts
from mirrorlake.proof.ranges.ranges import INTEGERS, Range, Span, ordered_column
from mirrorlake.proof.ranges.target import Target
from mirrorlake.sources.mysql.tables import Column


def resolve_keys(target: Target, named: Named) -> Range | Span:
    """The keys that a person named, of a key whose order both sides share.

    Raises:
        ConfigError: it is no such key, or these are no keys of it.
    """
    if ordered_of(target) is not None:
        return integer_range(target.name, named)
    parts, key = parts_of(target), target.key
    if len(key) == 1 and len(parts) == 1:
        return closed_span(target.name, parts[0], named)
    first = "".join(f"{c.name} ({c.column_type})" for c in key[:1])
    if not key:
        why = "it has none"
    elif any(_is_hidden(target, column) for column in key):
        why = "the ends of a range would stand in the ledger, and it has a column with a pii rule"
    elif len(key) != 1:
        why = f"it has several columns, and the first, {first}, is no integer"
    else:
        why = f"only MySQL knows the order of {first} in {key[0].collation or 'its values'}"
    raise ConfigError(
        f"table {target.name}: no range of its key can be checked: {why}",
        table=target.name,
        next_step="Use --full, --partition or --where",
    )


def ordered_of(target: Target) -> Column | None:
    """The column whose ranges cut the table; never one whose values must not be shown."""
    column = ordered_column(target.key)
    return None if column is None or _is_hidden(target, column) else column


def parts_of(target: Target) -> tuple[Part, ...]:
    """The leading columns of the table's key, in the order of its index, that both sides order
    alike; never one whose values must not be shown."""
    names = [column.name.lower() for column in target.key]
    forms = {cell.name: cell for cell in target.rows.cells}
    unique = [i for i in target.table.indexes if i.unique]
    for index in unique:
        if sorted(map(str.lower, index.columns)) == sorted(names):
            names = [name.lower() for name in index.columns]
    by_name = {column.name.lower(): column for column in target.key}
    key = [by_name[name] for name in names]
    hidden = [c.name for c in key if _is_hidden(target, c)]
    return ordered_parts(key, [forms[c.name] for c in key], hidden)


def _is_hidden(target: Target, column: Column) -> bool:
    rule = target.contract.column_rule(column.name)
    return rule is not None and rule.pii is not None


def is_one_integer(target: Target) -> bool:
    return len(target.key) == 1 and target.key[0].data_type in INTEGERS
