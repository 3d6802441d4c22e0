"""What of a table goes to BigQuery: its columns and its key, and nothing that is withheld."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pydantic import SecretStr

from mirrorlake.bigquery.api.client import TableLayout
from mirrorlake.bigquery.api.statements import LITERALS
from mirrorlake.bigquery.api.types import FieldJson, fields_of
from mirrorlake.config.settings import BigQueryLayout
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable, arrow_schema
from mirrorlake.errors import ConfigError
from mirrorlake.schema.masking import fingerprint_of, keyed_hash
from mirrorlake.schema.own_columns import ORIGINAL, hash_column
from mirrorlake.table.hash_key import unhashable, without_hash_key

_MOST_CLUSTERED = 4
_CLUSTERED = frozenset(
    {"INTEGER", "NUMERIC", "BIGNUMERIC", "STRING", "DATE", "DATETIME", "TIMESTAMP"}
)
_DATED = frozenset({"DATE", "DATETIME", "TIMESTAMP"})


@dataclass(frozen=True)
class PublishedForm:
    """The columns of a table in BigQuery, and what tells its rows apart.

    Attributes:
        columns: in the lake's order, then the hashes of columns with ``pii: hash``.
        key: none where BigQuery has not the lake's key, or not exactly.
        withheld: the columns that are not loaded (``pii: drop``), as the lake names them.
        hashed: the columns whose hashes are loaded; under: the fingerprint of the hash key.
        parts: the columns by which a model's table is partitioned in the lake: its partitions are
            replaced as wholes; none where one of them has no exact literal.
        column, per: by whose days or months the table is partitioned (``DAY``, ``MONTH``); '' where
            it is not.
    """

    columns: list[FieldJson]
    key: tuple[str, ...]
    withheld: tuple[str, ...] = ()
    hashed: tuple[str, ...] = ()
    under: str = ""
    column: str = ""
    per: str = ""
    parts: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [column["name"] for column in self.columns]

    @property
    def layout(self) -> TableLayout:
        """How the table is to be kept."""
        kinds = {column["name"]: column["type"] for column in self.columns}
        by = self.key or tuple(name for name in self.parts if name != self.column)
        clustered = [name for name in kinds if name in by and kinds[name] in _CLUSTERED]
        return TableLayout(self.column, self.per, tuple(clustered[:_MOST_CLUSTERED]))

    @property
    def read(self) -> list[str]:
        """The columns that are read of the lake."""
        return self.names[: len(self.columns) - len(self.hashed)]

    def is_under(self, hash_key: SecretStr | None) -> bool:
        """Whether its hashes, if it has any, are of this key."""
        now = fingerprint_of(hash_key) if self.hashed and hash_key is not None else ""
        return now == self.under

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> PublishedForm:
        found = json.loads(text)
        lists = {
            name: tuple(found.get(name, ())) for name in ("key", "withheld", "hashed", "parts")
        }
        texts = {name: found.get(name, "") for name in ("under", "column", "per")}
        return PublishedForm(found["columns"], **lists, **texts)

    def shown(self, batch: pa.RecordBatch, hash_key: SecretStr | None) -> pa.RecordBatch:
        """Rows of the lake as they are loaded: without original texts of withheld columns, and with
        hashes."""
        arrays, names = [*batch.columns], [*batch.schema.names]
        if self.withheld and ORIGINAL in names:
            at = names.index(ORIGINAL)
            arrays[at] = without(arrays[at], self.withheld)
        if self.hashed and hash_key is not None:
            function = keyed_hash(hash_key.get_secret_value().encode())
            arrays += [_hashes(batch, name, function) for name in self.hashed]
            names += [hash_column(name) for name in self.hashed]
        return pa.RecordBatch.from_arrays(arrays, names=names)


@dataclass(frozen=True)
class ShownTable:
    """A table as the lake shows it now, and what of it goes to BigQuery.

    Attributes:
        name: what the ledger calls its publications.
    """

    name: str
    identifier: Identifier
    table: LakeTable
    version: int
    form: PublishedForm


@dataclass(frozen=True)
class FormTerms:
    """What a contract says of its table in BigQuery.

    Attributes:
        name: the contract's.
        key: the columns of the lake that tell its rows apart; none without a key.
        rules: what becomes of columns, by name in lower case.
        layout: how the table is partitioned; None: not at all.
        parts: the columns by which a model's table is partitioned in the lake.
    """

    name: str
    key: tuple[str, ...]
    rules: Mapping[str, str]
    layout: BigQueryLayout | None = None
    parts: tuple[str, ...] = ()


def form_of(terms: FormTerms, table: LakeTable, hash_key: SecretStr | None) -> PublishedForm:
    """What of a lake table goes to BigQuery.

    Raises:
        TypeRefused: BigQuery can't have a column's type or name.
        ConfigError: a column is to be hashed, and can't be, or there is no key; or it can't be
            partitioned by the column that the contract names.
    """
    schema = arrow_schema(table.schema(), field_ids=False)
    dropped = {name for name, rule in terms.rules.items() if rule == "drop"}
    kept = pa.schema([field for field in schema if field.name.lower() not in dropped])
    columns = fields_of(terms.name, kept)
    spelled = {column["name"].lower(): column for column in columns}
    key = [spelled.get(name.lower()) for name in terms.key]
    exact = [one["name"] for one in key if one is not None and one["type"] != "FLOAT"]
    withheld = tuple(name for name in schema.names if name.lower() in dropped)
    column, per = _partition(terms, spelled)
    named = [spelled[name.lower()] for name in terms.parts]
    parts = tuple(one["name"] for one in named if one["type"] in LITERALS)
    hashed = tuple(name for name in kept.names if terms.rules.get(name.lower()) == "hash")
    if hashed and hash_key is None:
        raise without_hash_key(terms.name, hashed[0])
    return PublishedForm(
        [*columns, *(_hash_field(terms.name, kept.field(name)) for name in hashed)],
        tuple(exact) if len(exact) == len(key) else (),
        withheld,
        hashed,
        fingerprint_of(hash_key) if hashed and hash_key is not None else "",
        column,
        per,
        parts if len(parts) == len(named) else (),
    )


def _partition(terms: FormTerms, columns: Mapping[str, FieldJson]) -> tuple[str, str]:
    """The column by which a table is partitioned, and what of it one partition has.

    Args:
        columns: those that are loaded, by name in lower case.
    """
    if terms.layout is None:
        return "", ""
    by = terms.layout.partition_by
    column = columns.get(by.lower())
    if column is not None and column["type"] in _DATED:
        return column["name"], terms.layout.partition.upper()
    what = "is not in the lake" if column is None else f"is {column['type']} in BigQuery"
    raise ConfigError(
        f"table {terms.name}: it can't be partitioned by {by!r}, which {what}",
        table=terms.name,
        column=by,
        next_step="Name a column of type DATE, DATETIME or TIMESTAMP under bigquery.partition_by",
    )


def _hash_field(table: str, field: pa.Field) -> FieldJson:
    """The column of a column's hashes; of a type whose text is not one, there is none."""
    kind = field.type
    fits = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date)
    texts = (pa.types.is_string, pa.types.is_large_string)
    if not any(fit(kind) for fit in (*fits, *texts)):
        raise unhashable(table, field.name, str(kind))
    return FieldJson(name=hash_column(field.name), type="STRING", mode="NULLABLE")


def _hashes(
    batch: pa.RecordBatch, name: str, function: Callable[[Any, str | None], str | None]
) -> pa.Array:
    """A column's hashes: of its values, or of the original texts of those that had no place."""
    values = batch.column(name).to_pylist()
    entries = (
        batch.column(ORIGINAL).to_pylist()
        if ORIGINAL in batch.schema.names
        else [None] * len(values)
    )
    originals = ({one["column"]: one["text"] for one in texts or ()} for texts in entries)
    found = [function(v, texts.get(name)) for v, texts in zip(values, originals, strict=True)]
    return pa.array(found, pa.string())


def without(entries: pa.Array, columns: Sequence[str]) -> pa.Array:
    """Original texts without those of some columns."""
    kind = entries.type
    kept = [
        None if one is None else [entry for entry in one if entry["column"] not in columns]
        for one in entries.to_pylist()
    ]
    return pa.array(kept, kind)
