"""Tables like those of public schemas, from a grammar of our own: names, types, keys and shapes.

The same seed gives the same tables. Rows change in ways that a table's mode sees: one with a cursor
sees no deletes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_THINGS = (
    *("account", "address", "article", "asset", "basket", "booking", "branch", "carrier", "claim"),
    *("comment", "coupon", "course", "device", "event", "film", "invoice", "item", "lesson"),
    *("member", "message", "order", "page", "parcel", "payment", "plan", "player", "post"),
    *("product", "recipe", "region", "review", "role", "room", "session", "shipment", "ticket"),
)
_PARTS = ("", "_meta", "_detail", "_history", "_link", "_option", "_tag", "_to_user", "_text")
_PREFIXES = ("", "", "shop_", "cms_", "app_", "x1_")
_TYPES: dict[str, tuple[str, ...]] = {
    "VARCHAR(60)": ("'plain'", "''", "'größe'", "'a \"b\" ''c'''", "NULL"),
    "VARCHAR(40) CHARACTER SET latin1": ("'caf\u00e9'", "'x'", "NULL"),
    "CHAR(2)": ("'de'", "'EN'", "NULL"),
    "TEXT": ("REPEAT('long ', 40)", "''", "NULL"),
    "JSON": ("'{\"a\": [1, 2.50]}'", "NULL"),
    "DECIMAL(12,4)": ("12.3400", "-0.0001", "NULL"),
    "DOUBLE": ("0.1e0", "-1e300", "NULL"),
    "INT": ("-5", "0", "2147483647", "NULL"),
    "BIGINT UNSIGNED": ("18446744073709551615", "7", "NULL"),
    "TINYINT(1)": ("0", "1", "2", "NULL"),
    "DATE": ("'2024-02-29'", "'0000-00-00'", "NULL"),
    "DATETIME": ("'2020-01-01 10:00:00'", "'0000-00-00 00:00:00'", "NULL"),
    "TIME": ("'-10:00:01'", "'23:59:59'", "NULL"),
    "ENUM('new','open','done')": ("'new'", "'done'", "NULL"),
    "SET('a','b','c')": ("'a,c'", "''", "NULL"),
    "VARBINARY(20)": ("x'00ff10'", "''", "NULL"),
    "BLOB": ("x'deadbeef'", "NULL"),
}
_MOVES = "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"


@dataclass(frozen=True)
class Invented:
    """One table: its columns but for the key's and the cursor, with the values that they take."""

    name: str
    key: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    cursor: bool
    statements: tuple[str, ...]

    @property
    def contract(self) -> dict[str, Any]:
        if self.cursor:
            return {"mode": "incremental", "key": [*self.key], "cursor": "modified_at"}
        return {"mode": "full", "key": [*self.key], "verify": True}


def invented_tables(seed: int, count: int) -> list[Invented]:
    """So many tables, each with the statements that make and fill it."""
    rng = random.Random(seed)  # noqa: S311
    return [_table(rng, number) for number in range(count)]


def changes_of(table: Invented, rng: random.Random) -> Iterator[str]:
    """Statements after which a table is another one: rows changed, added, and where its mode sees
    that, removed."""
    column, kind = rng.choice(table.columns)
    yield f"UPDATE `{table.name}` SET `{column}` = {rng.choice(_TYPES[kind])} WHERE n % 3 = 0"
    yield _insert(table, rng, rng.randint(1_000, 9_000))
    if not table.cursor and rng.random() < 0.7:
        yield f"DELETE FROM `{table.name}` WHERE n % 7 = {rng.randint(0, 6)}"


def _table(rng: random.Random, number: int) -> Invented:
    name = f"{rng.choice(_PREFIXES)}{rng.choice(_THINGS)}{rng.choice(_PARTS)}_{number}"
    if rng.random() < 0.2:
        name = "".join(part.capitalize() for part in name.split("_"))
    kinds = rng.choices([*_TYPES], k=rng.randint(1, 9))
    columns = tuple((f"{rng.choice(_THINGS)}_{i}", kind) for i, kind in enumerate(kinds))
    cursor = rng.random() < 0.15
    shapes = (("n",), ("n",), ("n", "lang"), ("uuid",), *(() if cursor else ((),)))
    key = rng.choice(shapes)
    engine = "MyISAM" if not cursor and rng.random() < 0.1 else "InnoDB"
    parts = [
        "n INT NOT NULL",
        "lang CHAR(2) NOT NULL DEFAULT 'en'",
        "uuid CHAR(36) NOT NULL",
        *(f"`{column}` {kind}" for column, kind in columns),
        *([f"modified_at {_MOVES}", "KEY (modified_at)"] if cursor else []),
        *([f"PRIMARY KEY ({', '.join(key)})"] if key else ["KEY (n)"]),
    ]
    table = Invented(name, key, columns, cursor, ())
    made = f"CREATE TABLE `{name}` ({', '.join(parts)}) ENGINE={engine} CHARACTER SET utf8mb4"
    rows = [_insert(table, rng, n) for n in range(rng.choice([0, 1, 5, 20, 60]))]
    return Invented(name, key, columns, cursor, (made, *rows))


def _insert(table: Invented, rng: random.Random, n: int) -> str:
    cells = ", ".join(rng.choice(_TYPES[kind]) for _, kind in table.columns)
    columns = ", ".join(f"`{column}`" for column, _ in table.columns)
    return (
        f"INSERT IGNORE INTO `{table.name}` (n, lang, uuid, {columns})"
        f" VALUES ({n}, '{rng.choice(['en', 'de'])}', MD5({n}), {cells})"
    )
