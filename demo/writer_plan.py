"""What the live writer does next: plans drawn from a seed and the keys that exist."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Literal

from mirrorlake.trial.shop import order_total
from mirrorlake.trial.shop_rows import (
    STATUSES,
    ShopCell,
    ShopRow,
    customer_row,
    event_row,
    item_row,
    order_row,
    payment_row,
    product_row,
)

IntKey = tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """One row inserted, updated or deleted; `values` without the columns that the clock sets."""

    kind: Literal["insert", "update", "delete"]
    table: str
    key: IntKey
    values: ShopRow = field(default_factory=dict[str, ShopCell])


class KeySet:
    """Keys in an order that history alone decides; pick, add and remove are O(1)."""

    def __init__(self, keys: Iterable[IntKey]) -> None:
        self._keys = list(keys)
        self._at = {key: at for at, key in enumerate(self._keys)}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: IntKey) -> bool:
        return key in self._at

    def add(self, key: IntKey) -> None:
        """Add a key that is not there."""
        self._at[key] = len(self._keys)
        self._keys.append(key)

    def remove(self, key: IntKey) -> None:
        """Remove a key; the last one takes its place."""
        at, last = self._at.pop(key), self._keys.pop()
        if at < len(self._keys):
            self._keys[at] = last
            self._at[last] = at

    def pick(self, rng: Random) -> IntKey:
        """Any key; there must be one."""
        return self._keys[rng.randrange(len(self._keys))]


class Planner:
    """Draws transactions from a fixed mixture; changes only rows that `settle` has seen."""

    def __init__(self, rng: Random, keys: Mapping[str, list[IntKey]], now: datetime) -> None:
        self._rng = rng
        self._now = now
        self._keys = {name: KeySet(rows) for name, rows in keys.items()}
        self._next = {
            name: max((key[0] for key in rows), default=0) + 1 for name, rows in keys.items()
        }
        self._lines: defaultdict[int, set[int]] = defaultdict(set)
        for order, line in keys["order_items"]:
            self._lines[order].add(line)
        self._dropped_items: list[IntKey] = []
        self._mixture: dict[Callable[[], list[Change]], int] = {
            self._new_order: 24,
            self._page_event: 15,
            self._advance_order: 15,
            self._change_item: 10,
            self._change_customer: 8,
            self._new_customer: 6,
            self._change_payment: 5,
            self._change_product: 4,
            self._drop_item: 4,
            self._restore_item: 2,
            self._new_product: 2,
            self._drop_product: 2,
            self._drop_payment: 2,
            self._drop_customer: 1,
            self._drop_order: 1,
            self._drop_event: 1,
        }

    def plan(self, most: int) -> tuple[list[Change], bool]:
        """The next transaction, of 1 to `most` changes, and whether it should commit late."""
        draw = self._rng.choices(list(self._mixture), list(self._mixture.values()))[0]
        changes = draw()
        if not 0 < len(changes) <= most:
            changes = self._page_event()
        fresh = all(change.kind == "insert" for change in changes)
        # Late ones only insert: nobody waits for their locks.
        late = fresh and len(changes) > 2 and self._rng.random() < 1 / 60
        return changes, late

    def settle(self, change: Change) -> None:
        """Take a committed change into account."""
        if change.kind == "update":
            return
        keys = self._keys[change.table]
        if change.kind == "insert":
            keys.add(change.key)
        else:
            keys.remove(change.key)
        if change.table == "order_items":
            order, line = change.key
            if change.kind == "insert":
                self._lines[order].add(line)
            else:
                self._lines[order].remove(line)

    def _new_order(self) -> list[Change]:
        if not len(self._keys["customers"]):
            return []
        rng, number = self._rng, self._take("orders")
        (customer,) = self._keys["customers"].pick(rng)
        items = [
            item_row(rng, number, line, self._product()) for line in range(1, rng.randint(1, 4) + 1)
        ]
        total = order_total(items)
        changes = [
            _insert("orders", order_row(rng, customer, self._now) | {"id": number, "total": total})
        ]
        changes += [
            Change("insert", "order_items", (number, n), row) for n, row in enumerate(items, 1)
        ]
        payment = payment_row(rng, number, total, self._now)
        changes.append(_insert("payments", payment | {"id": self._take("payments")}))
        return [*changes, *self._event(customer, "checkout")]

    def _page_event(self) -> list[Change]:
        customers = self._keys["customers"]
        known = len(customers) and self._rng.random() < 0.5
        return self._event(customers.pick(self._rng)[0] if known else None, None)

    def _advance_order(self) -> list[Change]:
        status = self._rng.choice(STATUSES)
        return [*self._update("orders", {"status": status}), *self._event(None, "order")]

    def _change_item(self) -> list[Change]:
        if not len(self._keys["order_items"]):
            return []
        rng = self._rng
        order, line = self._keys["order_items"].pick(rng)
        changes = [Change("update", "order_items", (order, line), {"quantity": rng.randint(-2, 9)})]
        if (order,) not in self._keys["orders"]:
            return changes
        total = Decimal(rng.randrange(10**6)) / 100
        return [*changes, Change("update", "orders", (order,), {"total": total})]

    def _change_customer(self) -> list[Change]:
        whole = customer_row(self._rng, self._rng.randrange(10**6), self._now)
        names = self._rng.sample(sorted(whole), 3)
        return self._update("customers", {name: whole[name] for name in names})

    def _new_customer(self) -> list[Change]:
        number = self._take("customers")
        row = customer_row(self._rng, number, self._now) | {"id": number}
        return [_insert("customers", row), *self._event(number, "signup")]

    def _change_payment(self) -> list[Change]:
        return self._update("payments", {"amount": Decimal(self._rng.randrange(10**6)) / 100})

    def _change_product(self) -> list[Change]:
        return self._update("products", {"rating": self._rng.random() * 5})

    def _new_product(self) -> list[Change]:
        number = self._take("products")
        return [_insert("products", product_row(self._rng, number, self._now) | {"id": number})]

    def _drop_item(self) -> list[Change]:
        changes = self._delete("order_items")
        self._dropped_items += [change.key for change in changes]
        return changes

    def _restore_item(self) -> list[Change]:
        """Insert a deleted line again, under its old key."""
        while self._dropped_items:
            order, line = self._dropped_items.pop(self._rng.randrange(len(self._dropped_items)))
            if line not in self._lines[order]:
                row = item_row(self._rng, order, line, self._product())
                return [Change("insert", "order_items", (order, line), row)]
        return []

    def _drop_product(self) -> list[Change]:
        return self._delete("products")

    def _drop_payment(self) -> list[Change]:
        return self._delete("payments")

    def _drop_customer(self) -> list[Change]:
        return self._delete("customers")

    def _drop_event(self) -> list[Change]:
        return self._delete("events")

    def _drop_order(self) -> list[Change]:
        changes = self._delete("orders")
        lines = [(*c.key, line) for c in changes for line in sorted(self._lines[c.key[0]])]
        return [*changes, *(Change("delete", "order_items", key) for key in lines)]

    def _event(self, customer: int | None, kind: str | None) -> list[Change]:
        row = event_row(self._rng, customer, kind)
        return [_insert("events", row | {"id": self._take("events")})]

    def _update(self, table: str, values: ShopRow) -> list[Change]:
        keys = self._keys[table]
        return [Change("update", table, keys.pick(self._rng), values)] if len(keys) else []

    def _delete(self, table: str) -> list[Change]:
        keys = self._keys[table]
        return [Change("delete", table, keys.pick(self._rng))] if len(keys) else []

    def _product(self) -> int | None:
        products = self._keys["products"]
        return products.pick(self._rng)[0] if len(products) else None

    def _take(self, table: str) -> int:
        number = self._next[table]
        self._next[table] += 1
        return number


def _insert(table: str, row: ShopRow) -> Change:
    return Change("insert", table, (int(str(row["id"])),), row)
