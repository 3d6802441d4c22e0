"""Raw over all schema versions of a table as one: its columns, and each version's SQL for them.

What belongs here: the definition. What doesn't: the view and the table of it
(`mirrorlake.serving.versions`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import Identifier, text_literal
from mirrorlake.destinations.iceberg.model import (
    LakeSchema,
    LakeTable,
    chosen_columns,
    column_names,
)
from mirrorlake.destinations.iceberg.tables.schemas import can_hold, current_schema, iceberg_type
from mirrorlake.errors import ConfigError
from mirrorlake.merge.row_sql.version_sql import NO_ORIGINALS, version_columns, version_originals
from mirrorlake.schema.lattice import StoredType
from mirrorlake.schema.own_columns import ORIGINAL, SEQ, VERSION
from mirrorlake.table.resolve import ResolvedTable


@dataclass(frozen=True)
class Unified:
    """Raw's rows of all versions, in one set of columns: those that MySQL has now, then those that
    it had, each in a type that holds what any version has of it; NULL where a version lacks one.

    Attributes:
        tables: the raw tables by name, oldest version first; at least one.
        types: the source's columns.
        originals: whether there is a column of original texts.
        meta: Mirrorlake's own columns of raw rows, and their types.
    """

    plan: ResolvedTable
    tables: Mapping[str, LakeTable]
    types: Mapping[str, StoredType]
    originals: bool
    meta: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Every column, in order."""
        return (*self.types, *([ORIGINAL] if self.originals else []), VERSION, *self.meta)

    @property
    def schema(self) -> LakeSchema:
        """The columns' types, in their order."""
        own = [(name, kind.iceberg) for name, kind in self.types.items()]
        columns = [*own, (VERSION, "string"), *self.meta.items()]
        return chosen_columns(current_schema(columns, self.originals), self.names)

    def rows_sql(self, name: str, *, at: int | None = None, seqs: Iterable[int] = ()) -> str:
        """SQL of the rows of one raw table.

        Args:
            at: the version of the raw table that is read; None: the one that main shows.
            seqs: the numbers of the loads whose rows are meant; none: of all.
        """
        read = self._selects(name, self.types)
        meta = [f"{text_literal(_hash_of(name))} AS {VERSION}", *self.meta]
        raw = Identifier(self.plan.raw.namespace, name).sql
        version = "" if at is None else f" VERSION AS OF {at}"
        numbers = ", ".join(map(str, sorted(seqs)))
        where = f" WHERE {SEQ} IN ({numbers})" if numbers else ""
        return f"SELECT {', '.join([*read, *meta])} FROM {raw}{version}{where}"  # noqa: S608

    def _selects(self, name: str, types: Mapping[str, StoredType]) -> list[str]:
        """SQL of the source's columns of one raw table, in these types; the originals last."""
        table = self.tables[name]
        structured = structured_columns(self.plan.contract, types)
        columns = version_columns(self.plan, table, types, structured)
        if self.originals:
            columns.append(version_originals(self.plan, table, types))
        return columns

    @property
    def definition(self) -> str:
        """By what rows that were written are known to be those that would be written now."""
        made = {
            "types": {name: kind.iceberg for name, kind in self.types.items()},
            "originals": self.originals,
            "meta": dict(self.meta),
            "selects": {name: self._selects(name, self.types) for name in self.tables},
        }
        return json.dumps(made, ensure_ascii=False)

    def keeps(self, definition: str) -> bool:
        """Whether rows that were written by another definition are those that this one gives, once
        the columns that they lack are there, and those that became wider are."""
        made: dict[str, Any] = json.loads(definition)
        before = {name: StoredType(kind) for name, kind in made["types"].items()}
        if made["meta"] != self.meta or (made["originals"] and not self.originals):
            return False
        for name, held in before.items():
            now = self.types.get(name)
            if now is None or not can_hold(iceberg_type(held.iceberg), iceberg_type(now.iceberg)):
                return False
        added = [name for name in self.types if name not in before]
        more = [NO_ORIGINALS] if self.originals and not made["originals"] else []
        return all(
            name in self.tables
            and [*selects, *more] == self._selects(name, before)
            and not any(self._has(name, column) for column in added)
            for name, selects in made["selects"].items()
        )

    def _has(self, name: str, column: str) -> bool:
        there = [n for n in column_names(self.tables[name].schema()) if not n.startswith("_mirror")]
        return self.plan.name_in(there, column) is not None


def digest_of(definition: str) -> str:
    """A short name of a definition."""
    return hashlib.sha256(definition.encode()).hexdigest()[:16]


def structured_columns(contract: Mirrored, types: Mapping[str, StoredType]) -> set[str]:
    """The columns whose JSON is shown by its structure.

    Raises:
        ConfigError: one of them has another type than a text's.
    """
    said = {name.lower() for name, rule in contract.columns.items() if rule.json_as == "structure"}
    chosen = {name for name in types if name.lower() in said}
    for name in sorted(chosen):
        if types[name].iceberg != "string":
            raise ConfigError(
                f"table {contract.name}: column {name!r} is {types[name].iceberg} in the lake, "
                "which holds no JSON",
                table=contract.name,
                column=name,
                next_step=f"Remove json_as of {name!r} from the contract",
            )
    return chosen


def _hash_of(raw_table: str) -> str:
    """The hash of the version whose rows a raw table holds."""
    return raw_table.rpartition("_v_")[2]
