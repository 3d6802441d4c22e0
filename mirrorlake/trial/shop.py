"""The demo's invented shop: six tables with 30 days of history behind `now`.

Which modes it feeds: customers, orders and payments are incremental by modified_at (DATETIME(6) in
UTC; TIMESTAMP(6) in orders), order_items follows the binary log, events grows by its key (a few are
deleted), products is small and copied in full. The application sets modified_at itself, from the
server's clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Final

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.tables import quote
from mirrorlake.trial.shop_rows import (
    SHOP_TABLES,
    ShopRow,
    ShopTable,
    customer_row,
    event_row,
    item_row,
    order_row,
    payment_row,
    product_row,
)

READER: Final = "mirror"
READS: Final = {"shop.*": "SELECT", "*.*": "REPLICATION CLIENT, REPLICATION SLAVE, PROCESS"}
"""The account that mirrors the shop, which may only read, as one of yours should."""
OnShopRows = Callable[[str, int, int], None]
"""Called with (table, rows done, rows in all)."""

HISTORY = timedelta(days=30)
ROWS_PER_INSERT = 2_000
_NO_DATE = re.compile(r"\d{4}-\d\d-00(?: 00:00:00)?")


def create_shop(
    connection: Connection[Cursor],
    database: str = "shop",
    seed: int = 7,
    customers: int = 4_000,
    now: datetime | None = None,
    progress: OnShopRows | None = None,
    zero_dates: bool = True,
) -> dict[str, int]:
    """Create `database` afresh and fill it; five orders a customer; one transaction per table.

    The same seed, size and `now` give the same rows.

    Args:
        now: the end of the history, UTC; the server's clock by default.
        zero_dates: whether dates may be zero, or parts of one, as in old applications; else they
            are the last day. (Rows with such dates are proved by Spark.)

    Returns:
        Rows per table.
    """
    with connection.cursor() as cursor:
        open_session(cursor)
        cursor.execute(f"DROP DATABASE IF EXISTS {quote(database)}")
        cursor.execute(f"CREATE DATABASE {quote(database)} CHARACTER SET utf8mb4")
        for table in SHOP_TABLES.values():
            cursor.execute(f"CREATE TABLE {_target(database, table)} ({table.ddl}) ENGINE=InnoDB")
        end = now.astimezone(UTC).replace(tzinfo=None) if now else server_now(cursor)
        rows = _History(seed, customers, end).rows()
        if not zero_dates:
            rows = {name: [_with_real_dates(r, end) for r in some] for name, some in rows.items()}
        for name, table in SHOP_TABLES.items():
            _fill(connection, cursor, _target(database, table), name, rows[name], progress)
    return {name: len(made) for name, made in rows.items()}


def _with_real_dates(row: ShopRow, end: datetime) -> ShopRow:
    day = end.date().isoformat()
    return {
        name: day if isinstance(cell, str) and _NO_DATE.fullmatch(cell) else cell
        for name, cell in row.items()
    }


def open_session(cursor: Cursor) -> None:
    """UTC, and a mode in which the server takes zero dates, as old applications do."""
    cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = '', innodb_lock_wait_timeout = 10")


def server_now(cursor: Cursor) -> datetime:
    """The server's clock, UTC, naive."""
    cursor.execute("SELECT UTC_TIMESTAMP(6)")
    (now,) = cursor.fetchone() or (None,)
    if not isinstance(now, datetime):
        raise SourceError(
            "the server gave no time", next_step="connect with PyMySQL's converters on"
        )
    return now


class _History:
    """Rows of all tables before `end`, with the times an application would have set."""

    def __init__(self, seed: int, customers: int, end: datetime) -> None:
        self._rng = Random(seed)  # noqa: S311
        self._customers = customers
        self._end = end
        self._rows: dict[str, list[ShopRow]] = {name: [] for name in SHOP_TABLES}

    def rows(self) -> dict[str, list[ShopRow]]:
        """All rows by table, in key order."""
        products = 200
        for number in range(1, products + 1):
            self._rows["products"].append(
                {"id": number} | product_row(self._rng, number, self._end)
            )
        for number, created in enumerate(self._moments(self._customers), start=1):
            row = customer_row(self._rng, number, self._end)
            self._add("customers", {"id": number} | row, created, self._later(created))
        for number, created in enumerate(self._moments(self._customers * 5), start=1):
            self._add_order(number, created, products)
        for number, created in enumerate(self._moments(self._customers * 6), start=1):
            customer = self._rng.choice((None, self._rng.randint(1, self._customers)))
            self._add("events", {"id": number} | event_row(self._rng, customer), created, created)
        return self._rows

    def _add_order(self, number: int, created: datetime, products: int) -> None:
        rng, changed = self._rng, self._later(created)
        order = order_row(rng, rng.randint(1, self._customers), created)
        items = [
            item_row(rng, number, line, rng.randint(1, products))
            for line in range(1, rng.choice((1, 2, 2, 3, 4)) + 1)
        ]
        order["total"] = total = order_total(items)
        self._add("orders", {"id": number} | order, created, changed)
        for item in items:
            self._add("order_items", item, created, created if rng.random() < 0.9 else changed)
        if rng.random() < 0.9:
            payment = {"id": len(self._rows["payments"]) + 1} | payment_row(
                rng, number, total, created
            )
            self._add("payments", payment, created, changed)

    def _add(self, name: str, row: ShopRow, created: datetime, modified: datetime) -> None:
        table = SHOP_TABLES[name]
        times = {table.created: created, table.modified: modified}
        self._rows[name].append(row | {column: at for column, at in times.items() if column})

    def _moments(self, count: int) -> list[datetime]:
        """`count` rising times of the history; its last minute is left out."""
        span = HISTORY.total_seconds() - 60
        seconds = sorted(self._rng.random() * span for _ in range(count))
        return [self._end - HISTORY + timedelta(seconds=s) for s in seconds]

    def _later(self, created: datetime) -> datetime:
        """When a row made at `created` last changed: half of them never did."""
        if self._rng.random() < 0.5:
            return created
        return created + (self._end - created) * (self._rng.random() * 0.999)


def order_total(items: Sequence[ShopRow]) -> Decimal:
    """What the lines of an order cost together, to the cent."""
    costs = [Decimal(str(item["unit_price"])) * int(str(item["quantity"])) for item in items]
    return sum(costs, Decimal(0)).quantize(Decimal("0.01"))


def _fill(
    connection: Connection[Cursor],
    cursor: Cursor,
    target: str,
    name: str,
    rows: Sequence[ShopRow],
    progress: OnShopRows | None,
) -> None:
    connection.begin()
    done = 0
    for batch in _batches(rows):
        columns = ", ".join(quote(column) for column in batch[0])
        marks = ", ".join(["%s"] * len(batch[0]))
        statement = f"INSERT INTO {target} ({columns}) VALUES ({marks})"  # noqa: S608
        cursor.executemany(statement, [tuple(row.values()) for row in batch])
        done += len(batch)
        if progress is not None:
            progress(name, done, len(rows))
    connection.commit()


def _batches(rows: Sequence[ShopRow]) -> Iterator[Sequence[ShopRow]]:
    for start in range(0, len(rows), ROWS_PER_INSERT):
        yield rows[start : start + ROWS_PER_INSERT]


def _target(database: str, table: ShopTable) -> str:
    return f"{quote(database)}.{quote(table.name)}"
