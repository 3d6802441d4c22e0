"""The shop's tables and how a row of each is made: shared by the first fill and the live writer.

Every awkward value that real databases hold is here on purpose: zero dates, '' beside NULL,
trailing spaces, emoji, -0.0, hours past a day, unsigned numbers past 2^63, TINYINT(1) with a 2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

ShopCell = str | int | float | bytes | Decimal | datetime | None
ShopRow = dict[str, ShopCell]
"""A row without the columns that the server's clock sets."""


@dataclass(frozen=True)
class ShopTable:
    """One table: its DDL, key, the columns set from the clock, and the clock's SQL function."""

    name: str
    key: tuple[str, ...]
    ddl: str
    clock: str = "UTC_TIMESTAMP(6)"
    created: str | None = "created_at"
    modified: str | None = "modified_at"


_CUSTOMERS = """
    id INT UNSIGNED NOT NULL AUTO_INCREMENT,
    email VARCHAR(190) NOT NULL,
    phone VARCHAR(32) NULL,
    first_name VARCHAR(60) NOT NULL,
    last_name VARCHAR(60) NOT NULL,
    birth_date DATE NULL,
    street VARCHAR(120) NULL,
    city VARCHAR(60) NOT NULL,
    country CHAR(2) NOT NULL,
    marketing TINYINT(1) NOT NULL COMMENT '0 no, 1 yes, 2 asked again',
    newsletter TINYINT(1) NULL,
    credit_limit DECIMAL(12,2) NOT NULL,
    balance DOUBLE NOT NULL,
    utc_offset TIME NOT NULL,
    last_login DATETIME NULL,
    notes MEDIUMTEXT NULL,
    created_at DATETIME(6) NOT NULL,
    modified_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY modified (modified_at)"""

_ORDERS = """
    id BIGINT NOT NULL AUTO_INCREMENT,
    customer_id INT UNSIGNED NOT NULL,
    status ENUM('new','paid','packed','shipped','returned','cancelled') NOT NULL,
    channel SET('web','app','gift','express') NOT NULL,
    total DECIMAL(12,2) NOT NULL,
    discount DECIMAL(6,4) NULL,
    flags BIT(6) NOT NULL,
    picked_in TIME(3) NULL COMMENT 'how long packing took; negative: packed before it was paid',
    deliver_on DATE NULL,
    paid_at TIMESTAMP NULL DEFAULT NULL,
    comment VARCHAR(200) NULL,
    created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    modified_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    PRIMARY KEY (id),
    KEY modified (modified_at),
    KEY customer (customer_id)"""

_ORDER_ITEMS = """
    order_id BIGINT NOT NULL,
    line SMALLINT UNSIGNED NOT NULL,
    product_id INT UNSIGNED NULL,
    quantity MEDIUMINT NOT NULL COMMENT 'negative: returned',
    unit_price DECIMAL(12,4) NOT NULL,
    weight_kg FLOAT NULL,
    gift TINYINT(1) NOT NULL,
    note VARCHAR(80) NULL,
    modified_at DATETIME(6) NOT NULL,
    PRIMARY KEY (order_id, line),
    KEY modified (modified_at)"""

_PAYMENTS = """
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    order_id BIGINT NOT NULL,
    method ENUM('card','transfer','voucher') NOT NULL,
    holder VARCHAR(120) NOT NULL,
    card_number VARCHAR(19) NULL,
    card_expiry CHAR(5) NULL,
    cvv CHAR(4) NULL,
    iban VARCHAR(34) NULL,
    amount DECIMAL(12,2) NOT NULL,
    rate DECIMAL(38,18) NOT NULL COMMENT 'exchange rate as the bank gave it',
    reference BIGINT UNSIGNED NOT NULL,
    value_date DATE NOT NULL,
    modified_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY modified (modified_at),
    KEY order_of (order_id)"""

_EVENTS = """
    id BIGINT NOT NULL AUTO_INCREMENT,
    customer_id INT UNSIGNED NULL,
    kind VARCHAR(32) NOT NULL,
    payload JSON NULL,
    session BINARY(16) NOT NULL,
    token VARBINARY(32) NULL,
    ip VARCHAR(45) NULL,
    agent TEXT NULL,
    took_ms DOUBLE NULL,
    created_at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY created (created_at)"""

_PRODUCTS = """
    id INT UNSIGNED NOT NULL AUTO_INCREMENT,
    sku VARCHAR(20) NOT NULL,
    name VARCHAR(80) NOT NULL,
    price DECIMAL(10,2) NOT NULL,
    weight_kg FLOAT NOT NULL,
    rating DOUBLE NULL,
    model_year YEAR NULL,
    switches BIT(63) NOT NULL,
    opens TIME NULL,
    discontinued DATE NULL,
    PRIMARY KEY (id),
    UNIQUE KEY sku (sku)"""

SHOP_TABLES: dict[str, ShopTable] = {
    table.name: table
    for table in (
        ShopTable("products", ("id",), _PRODUCTS, created=None, modified=None),
        ShopTable("customers", ("id",), _CUSTOMERS),
        ShopTable("orders", ("id",), _ORDERS, clock="CURRENT_TIMESTAMP(6)"),
        ShopTable("order_items", ("order_id", "line"), _ORDER_ITEMS, created=None),
        ShopTable("payments", ("id",), _PAYMENTS, created=None),
        ShopTable("events", ("id",), _EVENTS, modified=None),
    )
}

_FIRST = (
    "Anna",
    "Björn",
    "Chloé",
    "Đorđe",
    "Eve",
    "Fatima",
    "Grzegorz",
    "李",
    "Zoë 🎈",
    "O'Neil",
    "Jo ",
)
_LAST = (
    "Núñez",
    "Schmidt-Großmann",
    "Ng",
    "Иванова",
    "D'Arc",
    "Smith",
    "Øster",
    "山田",
    "de la Cruz\\",
)
_CITIES = (("Berlin", "DE"), ("Kraków", "PL"), ("São Paulo", "BR"), ("Tōkyō", "JP"))
_NOTES = (
    None,
    "",
    " ",
    "calls back 📞",
    "prefers\ttabs\nand lines",
    "trailing  ",
    "NULL",
    "\\N",
    '"quoted"',
)
_WORDS = ("lamp", "chair", "kettle", "rug", "clock", "mug", "shelf", "vase", "tent", "scarf")
_KINDS = ("view", "search", "cart", "login", "logout", "checkout")
_AGENTS = (None, "", "Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", "app/4.2 (📱; de-DE)")
STATUSES = ("new", "paid", "packed", "shipped", "returned", "cancelled")
ZERO_DATE = "0000-00-00"
ZERO_MOMENT = "0000-00-00 00:00:00"


def customer_row(rng: Random, number: int, now: datetime) -> ShopRow:
    """A customer; `number` makes the address unique, `now` (UTC, naive) bounds the last login."""
    first, last = rng.choice(_FIRST), rng.choice(_LAST)
    city, country = rng.choice(_CITIES)
    notes = "long " * 20_000 + "end 🏁" if rng.random() < 0.001 else rng.choice(_NOTES)
    return {
        "email": f"{rng.choice(_WORDS)}.{number}@example{rng.randrange(5)}.org",
        "phone": rng.choice((None, "", "112", f"+49 30 {rng.randrange(10**7):07d}")),
        "first_name": first,
        "last_name": last,
        "birth_date": _some_date(rng, now, years=80),
        "street": rng.choice((None, f"{last} Street {rng.randrange(1, 300)}")),
        "city": city,
        "country": country,
        "marketing": rng.choice((0, 1, 2)),
        "newsletter": rng.choice((None, 0, 1, 2, -1)),
        "credit_limit": Decimal(rng.randrange(-(10**6), 10**9)) / 100,
        "balance": _some_double(rng),
        "utc_offset": rng.choice(("-11:00:00", "-00:30:00", "00:00:00", "05:45:00", "14:00:00")),
        "last_login": _some_moment(rng, now),
        "notes": notes,
    }


def order_row(rng: Random, customer: int, now: datetime) -> ShopRow:
    """An order of `customer`, just made: its total is set by its items."""
    channel = ",".join(c for c in ("web", "app", "gift", "express") if rng.random() < 0.4)
    seconds, sign = rng.randrange(3_000_000), rng.choice(("", "", "-"))
    hours = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return {
        "customer_id": customer,
        "status": rng.choice(("new", "paid")),
        "channel": channel,
        "total": Decimal(0),
        "discount": rng.choice((None, Decimal(rng.randrange(10_000)) / 10_000)),
        "flags": rng.randrange(64),
        "picked_in": rng.choice(
            (None, f"{hours}.{rng.randrange(1000):03d}", "838:59:59", "-838:59:59")
        ),
        "deliver_on": _some_date(rng, now, years=0),
        "paid_at": _some_moment(rng, now),
        "comment": rng.choice(_NOTES),
    }


def item_row(rng: Random, order: int, line: int, product: int | None) -> ShopRow:
    """One line of an order; sometimes its product is NULL."""
    return {
        "order_id": order,
        "line": line,
        "product_id": product if rng.random() < 0.98 else None,
        "quantity": rng.choice((1, 1, 1, 2, 3, 10, -1)),
        "unit_price": Decimal(rng.randrange(1, 10**7)) / 10_000,
        "weight_kg": rng.choice((None, 0.1, 1 / 3, rng.random() * 50)),
        "gift": rng.choice((0, 0, 1, 2)),
        "note": rng.choice((None, None, "", "for you ", "🎁")),
    }


def payment_row(rng: Random, order: int, amount: Decimal, now: datetime) -> ShopRow:
    """A payment: a card's number, expiry and code (PCI), or an IBAN (PII), or neither."""
    method = rng.choice(("card", "card", "transfer", "voucher"))
    card, iban = method == "card", method == "transfer"
    return {
        "order_id": order,
        "method": method,
        "holder": f"{rng.choice(_FIRST)} {rng.choice(_LAST)}",
        "card_number": card_number(rng) if card else None,
        "card_expiry": f"{rng.randrange(1, 13):02d}/{rng.randrange(27, 33)}" if card else None,
        "cvv": f"{rng.randrange(1000):03d}" if card else None,
        "iban": f"DE{rng.randrange(10**20):020d}" if iban else None,
        "amount": amount,
        "rate": Decimal(rng.randrange(1, 10**20)).scaleb(-18),
        "reference": rng.choice((rng.randrange(2**63, 2**64), 2**64 - 1, rng.randrange(10**6))),
        "value_date": _some_date(rng, now, years=0) or ZERO_DATE,
    }


def event_row(rng: Random, customer: int | None, kind: str | None = None) -> ShopRow:
    """Something a visitor did; `customer` is NULL for strangers."""
    text = json.dumps(
        {"page": rng.choice(_WORDS), "n": rng.randrange(100), "é": "✓"}, ensure_ascii=False
    )
    return {
        "customer_id": customer,
        "kind": kind or rng.choice(_KINDS),
        "payload": rng.choice((None, text, "[]", '{"deep": {"er": [1, 2.50, null]}}')),
        "session": rng.randbytes(14) + rng.choice((b"\x00\x00", b"'\\", b"\xff\n")),
        "token": rng.choice((None, b"", b"\x00", rng.randbytes(rng.randrange(33)))),
        "ip": rng.choice(
            (None, f"192.0.2.{rng.randrange(256)}", f"2001:db8::{rng.randrange(65536):x}")
        ),
        "agent": rng.choice(_AGENTS),
        "took_ms": rng.choice((None, _some_double(rng))),
    }


def product_row(rng: Random, number: int, now: datetime) -> ShopRow:
    """A product; `number` makes the SKU unique."""
    return {
        "sku": f"SKU-{number:06d}",
        "name": f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}",
        "price": Decimal(rng.randrange(1, 10**6)) / 100,
        "weight_kg": rng.choice((0.1, 16_777_216.0, 1e-20, rng.random() * 9)),
        "rating": rng.choice((None, _some_double(rng))),
        "model_year": rng.choice((None, 0, 1901, 2155, 2024)),
        "switches": rng.randrange(2**63),
        "opens": rng.choice((None, "00:00:00", "-01:00:00", "30:15:00")),
        "discontinued": _some_date(rng, now, years=3),
    }


def card_number(rng: Random) -> str:
    """Sixteen digits of a test range with a right check digit (Luhn)."""
    body = [4, 0, 0, 0, *(rng.randrange(10) for _ in range(11))]
    doubled = [sum(divmod(d * 2, 10)) if at % 2 == 0 else d for at, d in enumerate(body)]
    return "".join(map(str, [*body, -sum(doubled) % 10]))


def _some_date(rng: Random, now: datetime, years: int) -> str | None:
    """A date of the last `years` (0: the next weeks); sometimes NULL, zero or half a date."""
    lot = rng.random()
    if lot < 0.05:
        return None
    if lot < 0.10:
        return ZERO_DATE
    if lot < 0.12:
        return f"{now.year - 1}-{rng.randrange(1, 13):02d}-00"
    days = -rng.randrange(365 * years) if years else rng.randrange(30)
    return (now + timedelta(days=days)).date().isoformat()


def _some_moment(rng: Random, now: datetime) -> str | None:
    lot = rng.random()
    if lot < 0.10:
        return None
    if lot < 0.15:
        return ZERO_MOMENT
    return (now - timedelta(seconds=rng.randrange(30 * 86_400))).strftime("%Y-%m-%d %H:%M:%S")


def _some_double(rng: Random) -> float:
    return rng.choice((0.0, -0.0, 0.1 + 0.2, 1e300, -5e-324, rng.uniform(-1e6, 1e6), 1 / 3))
