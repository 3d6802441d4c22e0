"""Which columns of a row leave in a record, and as what: those that clean shows, by its rules.

What belongs here: that decision, for the schema version of a load. What doesn't: the rules
themselves (`mirrorlake.table.columns.clean_rules`, `mirrorlake.schema.masking`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.iceberg.tables.schemas import StoredType
from mirrorlake.errors import ConfigError
from mirrorlake.landing.files.columns import TIMES, schema_text
from mirrorlake.landing.files.written import Texts, written_values
from mirrorlake.ledger import Ledger, Load
from mirrorlake.schema.masking import HASHABLE, keyed_hash
from mirrorlake.schema.versions import SchemaVersion, name_in
from mirrorlake.table.columns.clean_rules import rules_of
from mirrorlake.table.columns.exchanged import exchanged_name
from mirrorlake.table.columns.new_columns import held_by, held_columns, hidden_name
from mirrorlake.table.hash_key import has_hash_key, is_made_under, unhashable, without_hash_key
from mirrorlake.table.lake_tables import clean_of
from mirrorlake.table.meaning import recorded_meaning
from mirrorlake.workspace import Workspace

_NUMBERS: Final[Mapping[str, Callable[[str], Any]]] = {"int": int, "float": float, "double": float}
"""The types whose values are numbers in JSON."""


@dataclass(frozen=True)
class ShownColumns:
    """What of a schema version's columns is published.

    Attributes:
        types: the columns' Iceberg types as they are in a record, in the table's order.
        rules: of those that don't leave as they are: ``null``, ``mask`` or ``hash``.
        key: the key's columns, as this version calls them.
        ruled: every column with a rule, dropped ones too: their original texts stay here.
    """

    types: Mapping[str, str]
    rules: Mapping[str, str]
    key: tuple[str, ...]
    ruled: frozenset[str]
    stored: Mapping[str, StoredType]
    hashed: Callable[[Any, str | None], str | None]

    def written(self, name: str, values: Sequence[Any], texts: Sequence[Texts]) -> list[Any]:
        """A column's values as they leave.

        Args:
            texts: of each row, the original texts.
        """
        rule = self.rules.get(name)
        if rule == "null":
            return [None] * len(values)
        if rule == "mask":
            return [None if value is None else _masked(value) for value in values]
        if rule == "hash":
            pairs = zip(values, texts, strict=True)
            return [self.hashed(value, held.get(name)) for value, held in pairs]
        return written_values(values, self.types[name])

    def shown_texts(self, texts: Texts) -> Texts:
        """A row's original texts without those of columns that have a rule."""
        if not texts or self.ruled.isdisjoint(texts):
            return texts
        return {name: text for name, text in texts.items() if name not in self.ruled}

    def filled(self, filled: Mapping[str, str]) -> dict[str, Any]:
        """Of columns that were added with one value for all rows, what that is as it leaves."""
        found: dict[str, Any] = {}
        for name, text in filled.items():
            if name in self.rules:
                value = text if self.rules[name] == "mask" else None
                [found[name]] = self.written(name, [value], [{name: text}])
            elif name in self.types:
                found[name] = _NUMBERS.get(self.types[name], str)(text)
        return found

    def schema(self, *, originals: bool) -> bytes:
        """The columns' types as a landing's schema.

        Args:
            originals: whether values may have texts beside them.
        """

        def entries() -> Any:
            for name, kind in self.types.items():
                mysql = "" if name in self.rules else self.stored[name].mysql
                kept = originals and kind not in TIMES and name not in self.ruled
                yield name, kind, True, mysql, kept

        return schema_text(entries()).encode()


def _masked(text: str) -> str:
    """As `mirrorlake.schema.masking.mask_sql`."""
    return "********" + (text[-2:] if len(text) >= 6 else "")


def shown_columns(
    workspace: Workspace,
    contract: TableContract,
    load: Load,
    version: SchemaVersion,
    stored: Mapping[str, StoredType],
) -> ShownColumns:
    """What is published of a load's rows.

    Args:
        version: the load's.
        stored: the columns of its raw table.

    Raises:
        ConfigError: a rule doesn't fit its column's type, or hides a key column, which records
            need.
    """
    rules = rules_of(contract)
    held = {name.lower() for name in _held(workspace, contract, version, load.seq)}
    types: dict[str, str] = {}
    kept: dict[str, str] = {}
    for name, column in stored.items():
        rule = "drop" if name.lower() in held else rules.get(name.lower())
        if rule == "drop" or (rule == "mask" and column.iceberg != "string"):
            continue
        types[name] = "string" if rule in ("mask", "hash") else column.iceberg
        if rule is not None:
            kept[name] = rule
    meaning = recorded_meaning(load.receipt)
    key = contract.key or (meaning.key if meaning is not None else ())
    if not key:
        raise ConfigError(
            f"table {contract.name} has no key, so nobody could say which row a record is of",
            table=contract.name,
            next_step="Leave it out under records (`tables`)",
        )
    names = [name_in(stored, column, contract.earlier_names) for column in key]
    for column, name in zip(key, names, strict=True):
        if name is None or name not in types or kept.get(name) in ("null", "mask"):
            raise ConfigError(
                f"table {contract.name}: clean does not show its key column {column}, so nobody "
                "could say which row a record is of",
                table=contract.name,
                column=column,
                next_step="Give it `pii: hash`, or leave the table out under records (`tables`)",
            )
    return ShownColumns(
        types=types,
        rules=kept,
        key=tuple(name for name in names if name is not None),
        ruled=frozenset({*kept, *(name for name in stored if name not in types)}),
        stored=stored,
        hashed=_hash(workspace, contract, {n: stored[n] for n, r in kept.items() if r == "hash"}),
    )


def _hash(
    workspace: Workspace, contract: TableContract, columns: Mapping[str, StoredType]
) -> Callable[[Any, str | None], str | None]:
    for name, column in columns.items():
        if column.iceberg.split("(")[0] not in HASHABLE:
            raise unhashable(contract.name, name, column.iceberg)
    key = workspace.config.privacy.hash_key
    if not columns:
        return lambda _value, _text: None
    if key is None:
        raise without_hash_key(contract.name, next(iter(columns)))
    clean, ledger = clean_of(contract), workspace.ledger
    if has_hash_key(ledger, clean) and not is_made_under(ledger, clean, key):
        raise ConfigError(
            f"table {contract.name}: privacy.hash_key is not the key under which {clean} was "
            "hashed: one value would have two hashes among its records",
            table=contract.name,
            next_step="Set the old key again, or run `mirrorlake rekey`, which rewrites the clean "
            "tables under the new one",
        )
    return keyed_hash(key.get_secret_value().encode())


def _held(
    workspace: Workspace, contract: TableContract, version: SchemaVersion, seq: int
) -> tuple[str, ...]:
    """The columns that clean leaves out of rows of this version until a person decides."""
    ledger = workspace.ledger
    names = [name for name, _ in version.columns]
    if ledger.schema_versions(contract.name)[-1] == version:
        return held_columns(ledger, workspace.lake, contract, names)
    return held_by(
        contract,
        names,
        _known_then(ledger, contract, seq),
        exchanged=ledger.definition(exchanged_name(contract)),
        hidden=ledger.definition(hidden_name(contract)),
    )


def _known_then(ledger: Ledger, contract: TableContract, seq: int) -> frozenset[str]:
    """The columns, in lower case, that a table had from its first load to this one without a
    pause: one that MySQL dropped is new when it comes back."""
    columns = {v.raw_table: v.columns for v in ledger.schema_versions(contract.name)}
    loads = ledger.successful_loads(contract.name, ever=True)
    known: frozenset[str] | None = None
    for raw in dict.fromkeys(one.raw_table for one in loads if one.seq <= seq):
        names = frozenset(name.lower() for name, _ in columns.get(raw, ()))
        known = names if known is None else known & names
    return known or frozenset()
