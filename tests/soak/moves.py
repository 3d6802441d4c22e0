"""What people do to a source table and its contract while it is mirrored, as rounds of the soak.

Each move is made while the writer goes on; the sync that meets it first is killed at a random
moment, and the next one must put everything right.
"""

from __future__ import annotations

import time
from typing import Any

import pymysql
from pyiceberg.exceptions import CommitFailedException
from pymysql.connections import Connection

from tests.soak.steps import Watcher

MOVES = {
    "truncate": "the table is truncated and filled again: its AUTO_INCREMENT keys come a second time",
    "collation": "the text key gets another collation",
    "contract": "the contract gets another mode, key or start",
    "columns": "a column is added, renamed or dropped, or gets another type",
    "hands": "other hands delete rows of the lake, add some, show an older version, drop a table",
}
TABLES = {
    **{"truncate": "clicks", "collation": "names", "contract": "shapes", "columns": "orders"},
    "hands": "names",
}
SCHEMA = (
    """CREATE TABLE names (
        code VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, v INT,
        modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
        KEY (modified_at))""",
    """CREATE TABLE shapes (
        id INT AUTO_INCREMENT PRIMARY KEY, code VARCHAR(20) NOT NULL UNIQUE, v INT,
        modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
        KEY (modified_at))""",
)
CONTRACTS: dict[str, dict[str, Any]] = {
    "names": {
        "mode": "incremental",
        "key": ["code"],
        "cursor": "modified_at",
        "overlap": "5s",
        "clean": "table",
    },
}
_INCREMENTAL = {"mode": "incremental", "cursor": "modified_at", "overlap": "5s"}
SHAPES: tuple[dict[str, Any], ...] = (
    {**_INCREMENTAL, "key": ["id"]},
    {**_INCREMENTAL, "key": ["code"]},
    {**_INCREMENTAL, "key": ["id"], "start": "2024-01-01"},
    {"mode": "full", "key": ["id"]},
    {**_INCREMENTAL, "key": ["id"], "start": "2020-01-01"},
)
"""The contracts of `shapes`, one after the other."""
COLLATIONS = ("utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_general_ci")
COLUMNS = (
    "ADD COLUMN note VARCHAR(20) DEFAULT '7' FIRST",
    "MODIFY note INT, MODIFY total DECIMAL(14,3)",
    "RENAME COLUMN note TO remark",
    "MODIFY remark VARCHAR(30), MODIFY turn BIGINT",
    "DROP COLUMN remark, MODIFY turn INT, MODIFY total DECIMAL(12,2)",
)
"""What is done to the columns of `orders`, one after the other; then from the beginning again."""
REFILLED = 30


def truncate(connection: Connection[Any]) -> None:
    """Empty `clicks` and fill it with other rows under keys that were there before."""
    _patiently(connection, "TRUNCATE TABLE clicks")
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO clicks (what) SELECT CONCAT('again ', seq) FROM seq_1_to_{REFILLED}"
        )


def change_collation(connection: Connection[Any], number: int) -> None:
    """The ``number``-th collation of the key of `names`."""
    collation = COLLATIONS[number % len(COLLATIONS)]
    _patiently(
        connection,
        f"ALTER TABLE names MODIFY code VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {collation} "
        "NOT NULL",
    )


def change_columns(connection: Connection[Any], number: int) -> None:
    """The ``number``-th change of the columns of `orders`, and new values in some of its rows."""
    _patiently(connection, f"ALTER TABLE orders {COLUMNS[number % len(COLUMNS)]}")
    with connection.cursor() as cursor:
        cursor.execute("SHOW COLUMNS FROM orders")
        names = [name for name, *_ in cursor.fetchall() if name in ("note", "remark")]
    for name in names:
        _patiently(connection, f"UPDATE orders SET {name} = id % 9 ORDER BY id DESC LIMIT 20")


HANDS = (
    ("deduped", "delete"),
    ("clean", "append"),
    ("deduped", "set back"),
    ("deduped", "drop"),
    ("clean", "delete"),
    ("deduped", "append"),
    ("clean", "drop"),
)
"""What other hands do to a table's lake tables: in which layer (where clean is a view, in deduped),
and what."""


def by_other_hands(watcher: Watcher, layer: str, act: str) -> bool:
    """What a colleague does past the engine; nothing, and false, before the table's first fold."""
    table = watcher.layer(layer) or watcher.layer("deduped")
    shown = table.current_snapshot() if table is not None else None
    if table is None or shown is None:
        return False
    before = shown.parent_snapshot_id
    try:
        if act == "delete":
            table.delete()
        elif act == "append":
            table.append(table.scan().to_arrow().slice(0, 3))
        elif act == "drop":
            watcher.lake.catalog.drop_table(table.name())
        elif before is not None:
            table.manage_snapshots().set_current_snapshot(snapshot_id=before).commit()
    except CommitFailedException:
        return False  # the JVM of a killed run was quicker
    return act != "set back" or before is not None


def _patiently(connection: Connection[Any], statement: str) -> None:
    """Run a statement that needs the table for itself: it gives way at once, and tries again. The
    writer would wait for it, and it for the writer's open transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_wait_timeout = 1")
        for _ in range(60):
            try:
                cursor.execute(statement)
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (1205, 1213):
                    raise
                time.sleep(0.2)
            else:
                return
    raise AssertionError(f"never got its lock: {statement}")
