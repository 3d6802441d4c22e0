"""A table's columns on its assets' pages: types, rules, comments, and which column each comes from.

What belongs here: metadata of columns. What doesn't: what a rule does to a column (the engine), or
when an asset is materialised (`steps`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.table import UPSTREAM, MirroredTable
from dagster_mirrorlake.translator import Layer
from mirrorlake.config import ColumnRule, TableContract
from mirrorlake.ledger import Ledger
from mirrorlake.schema.own_columns import hash_column
from mirrorlake.table.columns.source_columns import SourceColumn, recorded_columns

if TYPE_CHECKING:
    from mirrorlake.destinations.iceberg.lake import Lake
    from mirrorlake.destinations.iceberg.model import LakeSchema
    from mirrorlake.operations.schema_changes.table_shapes import ShapeColumn

COLUMN_SCHEMA = "dagster/column_schema"
COLUMN_LINEAGE = "dagster/column_lineage"

_OURS = {
    "_mirror_load": "The load's id: one load, one commit.",
    "_mirror_seq": "The load's number in the ledger: a later observation has a higher one.",
    "_mirror_position": "The server's GTID position just before the read; '' without a binary log.",
    "_mirror_loaded_at": "When (UTC) the row was written.",
    "_mirror_deleted": "Whether the row is a tombstone: MySQL no longer had its key.",
    "_mirror_day": "The row's day: of the cursor, of `created`, or of the load.",
    "_mirror_key": "One value for each key, however the server may spell it.",
    "_mirror_token": "One value for each token, however the server may spell it.",
    "_mirror_original": "The exact texts of values that have no place in their column's type.",
    "_mirror_deleted_at": "When (UTC) the row was found gone in MySQL; NULL while it is there.",
    "_mirror_source": "The source that has the tenant's database.",
    "_mirror_database": "The tenant: the name of its database.",
    "_mirror_version": "The hash of the schema version in which the row was read.",
    "_mirror_snapshot": "The snapshot in which the row changed last.",
    "original_created_at": "When the first of the rows that share its token was created.",
}
"""Columns that are Mirrorlake's own. Of an entity's, the last: its name is a column's else."""
_NEVER_NULL = {"_mirror_load", "_mirror_seq", "_mirror_loaded_at", "_mirror_deleted", "_mirror_day"}
_SHOWN = {
    "mask": "masked but for the last two characters",
    "hash": "a keyed hash of the value",
    "null": "always NULL",
}


def columns_metadata(
    ledger: Ledger, table: MirroredTable, layer: Layer, schema: "LakeSchema | None"
) -> dict[str, Any]:
    """A lake layer's columns, and the column of the layer before that each comes from.

    Args:
        schema: as the lake has it now; None: the layer isn't there, and has no columns.
    """
    if schema is None:
        return {}
    contract = table.contract
    described = _Described(ledger, contract)
    fields = [(field.name, str(field.field_type)) for field in schema.fields]
    columns = [described.column(layer, name, kind) for name, kind in fields]
    upstream = table.key(UPSTREAM[layer])
    deps = {
        name: [dg.TableColumnDep(upstream, one) for one in described.origins(layer, name)]
        for name, _ in fields
    }
    return {
        # Raw has a row for each version that was seen of a key.
        COLUMN_SCHEMA: dg.TableSchema(columns, None if layer == "raw" else key_of(contract.key)),
        COLUMN_LINEAGE: dg.TableColumnLineage({name: of for name, of in deps.items() if of}),
    }


def layer_columns(
    lake: "Lake", ledger: Ledger, table: MirroredTable, layer: Layer
) -> dict[str, Any]:
    """The columns of a layer as the lake has it now, without Spark; nothing before it is there."""
    from mirrorlake.destinations.iceberg.tables.views import read_view
    from mirrorlake.table.lake_tables import clean_of, deduped_of, raw_tables

    contract = table.contract
    if layer == "clean" and contract.clean == "view":
        view = read_view(lake, clean_of(contract))
        return columns_metadata(ledger, table, layer, view.schema if view is not None else None)
    if layer == "raw":
        found = next(reversed(raw_tables(lake, ledger, contract)), None)
    else:
        found = lake.load(clean_of(contract) if layer == "clean" else deduped_of(contract))
    return columns_metadata(ledger, table, layer, found.schema() if found is not None else None)


def source_schema(contract: TableContract, columns: Iterable[SourceColumn]) -> dg.TableSchema:
    """The source's columns, by its own names and types; those that are never read, too."""
    columns = [*columns]
    named = {column.name.casefold(): column.in_source for column in columns}
    found = [
        dg.TableColumn(
            column.in_source,
            column.type,
            description=column.comment or None,
            constraints=dg.TableColumnConstraints(nullable=column.nullable, unique=column.unique),
            tags=column_tags(contract.columns, column.name),
        )
        for column in columns
    ]
    key = [named.get(name.casefold(), name) for name in contract.key]
    return dg.TableSchema(found, key_of(key))


def types_metadata(columns: "Iterable[ShapeColumn]") -> dict[str, Any]:
    """The columns that had several types: in which one all schema versions are read together, and
    why it is that one; nothing where none had."""
    records = [
        dg.TableRecord(
            {
                "column": column.name,
                "in MySQL": " → ".join(column.types),
                "over all versions": column.lake or "-",
                "why": column.why,
            }
        )
        for column in columns
        if len(column.types) > 1
    ]
    return {"columns of several types": dg.MetadataValue.table(records)} if records else {}


def landed_metadata(ledger: Ledger, table: MirroredTable) -> dict[str, Any]:
    """Raw's columns where it is the files that landed: the landing's own."""
    columns = recorded_columns(ledger, table.contract)
    if not columns:
        return {}
    source = table.key("source")
    deps = {c.name: [dg.TableColumnDep(source, c.in_source)] for c in columns}
    return {
        COLUMN_SCHEMA: source_schema(table.contract, columns),
        COLUMN_LINEAGE: dg.TableColumnLineage(deps),
    }


class _Described:
    """What is known of a table's columns, by the source's word at its newest load."""

    def __init__(self, ledger: Ledger, contract: TableContract) -> None:
        columns = recorded_columns(ledger, contract)
        self._contract = contract
        self._columns: Mapping[str, SourceColumn] = {c.name: c for c in columns}
        self._key = {name.casefold() for name in contract.key}
        versions = ledger.schema_versions(contract.name)
        # Rows that were deleted before a column came, and stay with a flag, have none of it.
        self._first = {name for name, _ in versions[0].columns} if versions else set(self._columns)

    def column(self, layer: Layer, name: str, kind: str) -> dg.TableColumn:
        """A column of a lake layer."""
        if self._is_ours(name):
            constraints = dg.TableColumnConstraints(nullable=name not in _NEVER_NULL)
            return dg.TableColumn(name, kind, _OURS.get(name), constraints)
        rule = self._rule(name) if layer == "clean" else None
        comment = self._columns[name].comment if name in self._columns else ""
        words = [comment, _SHOWN[rule] if rule else ""]
        return dg.TableColumn(
            name,
            kind,
            description="; ".join(word for word in words if word) or None,
            constraints=dg.TableColumnConstraints(
                nullable=self._nullable(layer, name, rule), unique=self._unique(layer, name, rule)
            ),
            tags=column_tags(self._contract.columns, name),
        )

    def origins(self, layer: Layer, name: str) -> Sequence[str]:
        """The columns of the layer before that a column is made of."""
        contract = self._contract
        entity = contract.entity
        if layer != "raw":
            if name == "_mirror_deleted_at" and layer == "deduped":
                return ("_mirror_deleted", "_mirror_loaded_at")
            return () if name == "_mirror_snapshot" and layer == "deduped" else (name,)
        if name == "original_created_at" and entity is not None:
            return self._spelled((entity.token, entity.created))
        if name == "_mirror_token" and entity is not None:
            return self._spelled((entity.token,))
        if name == "_mirror_key":
            return self._spelled(contract.key)
        if name == "_mirror_original":
            return [column.in_source for column in self._columns.values() if column.original]
        return () if self._is_ours(name) else self._spelled((name,))

    def _is_ours(self, name: str) -> bool:
        return name.startswith("_mirror_") or (name in _OURS and name not in self._columns)

    def _spelled(self, names: Iterable[str]) -> list[str]:
        """Columns as the source calls them."""
        spelled = {c.name.casefold(): c.in_source for c in self._columns.values()}
        return [spelled.get(name.casefold(), name) for name in names]

    def _rule(self, name: str) -> str | None:
        found = self._contract.column_rule(name)
        return str(found.pii) if found is not None and found.pii else None

    def _nullable(self, layer: Layer, name: str, rule: str | None) -> bool:
        column = self._columns.get(name)
        if column is None or rule == "null":
            return True
        # A hash is of the original text, where the value has no place.
        if column.nullable or (column.unplaced and rule != "hash"):
            return True
        if layer == "raw":
            # A tombstone has a key alone.
            return not (self._contract.copies or name.casefold() in self._key)
        return self._contract.deletes == "flag" and name not in self._first

    def _unique(self, layer: Layer, name: str, rule: str | None) -> bool:
        """Whether no two rows share a value: of a key of one column, where each row has its own."""
        if layer == "raw" or self._key != {name.casefold()} or rule in ("mask", "null"):
            return False
        column = self._columns.get(name)
        return column is not None and (not column.unplaced or rule == "hash")


def own_description(name: str) -> str | None:
    """What a column of Mirrorlake's own has; None of any other."""
    if name.startswith(prefix := hash_column("")):
        return f"What clean shows of {name.removeprefix(prefix)}."
    return _OURS.get(name) if name.startswith("_mirror_") else None


def column_tags(rules: Mapping[str, ColumnRule], name: str) -> dict[str, str]:
    """A column's rules: ``pii`` and ``pci``."""
    wanted = name.casefold()
    rule = next((r for n, r in rules.items() if n.casefold() == wanted), None)
    if rule is None:
        return {}
    said = {"pii": rule.pii, "pci": rule.pci}
    return {name: str(value) for name, value in said.items() if value}


def key_of(columns: Sequence[str]) -> dg.TableConstraints | None:
    """A key of several columns, which no column can show alone."""
    return dg.TableConstraints([f"key ({', '.join(columns)})"]) if len(columns) > 1 else None
