"""What of a table goes to BigQuery: its columns and its key, and nothing that is withheld."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.config import TableContract
from mirrorlake.destinations.bigquery.types import FieldJson, fields_of
from mirrorlake.destinations.iceberg.model import LakeTable, arrow_schema
from mirrorlake.schema.own_columns import ORIGINAL

pc: Any = _compute  # its functions are made at import: type checkers see none of them


@dataclass(frozen=True)
class PublishedForm:
    """The columns of a table there, and what tells its rows apart.

    Attributes:
        columns: in the lake's order.
        key: none where the lake's key is not, or not exactly, there.
        withheld: the columns that are not loaded (``pii: drop``), as the lake names them.
    """

    columns: list[FieldJson]
    key: tuple[str, ...]
    withheld: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [column["name"] for column in self.columns]

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> PublishedForm:
        found = json.loads(text)
        return PublishedForm(found["columns"], tuple(found["key"]), tuple(found["withheld"]))

    def shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the lake as they are loaded: without original texts of withheld columns."""
        if not self.withheld or ORIGINAL not in batch.schema.names:
            return batch
        at = batch.schema.get_field_index(ORIGINAL)
        entries = without(batch.column(at), self.withheld)
        arrays = [entries if i == at else batch.column(i) for i in range(batch.num_columns)]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def form_of(contract: TableContract, table: LakeTable) -> PublishedForm:
    """What of a lake table goes to BigQuery.

    Raises:
        TypeRefused: a column's type or name can't be there.
    """
    schema = arrow_schema(table.schema(), field_ids=False)
    dropped = {name.lower() for name, rule in contract.rules.items() if rule == "drop"}
    kept = pa.schema([field for field in schema if field.name.lower() not in dropped])
    columns = fields_of(contract.name, kept)
    spelled = {column["name"].lower(): column for column in columns}
    key = [spelled.get(name.lower()) for name in contract.key]
    exact = [one["name"] for one in key if one is not None and one["type"] != "FLOAT"]
    withheld = tuple(name for name in schema.names if name.lower() in dropped)
    return PublishedForm(columns, tuple(exact) if len(exact) == len(key) else (), withheld)


def without(entries: pa.Array, columns: Sequence[str]) -> pa.Array:
    """Original texts without those of some columns."""
    kind = entries.type
    kept = [
        None if one is None else [entry for entry in one if entry["column"] not in columns]
        for one in entries.to_pylist()
    ]
    return pa.array(kept, kind)
