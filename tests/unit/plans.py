"""Plans of invented tables, for tests of what is decided before anything is read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from mirrorlake.config import SourceConfig, TableContract, default_namespaces
from mirrorlake.ledger import Load, Window
from mirrorlake.sources.mysql.tables import Column, Index
from mirrorlake.table.resolve import ResolvedTable, plan_table
from tests.unit.tables import ID, PRIMARY, column, source_table


def planned(
    *columns: Column,
    zone: str = "UTC",
    key: tuple[str, ...] = ("id",),
    columns_rules: dict[str, Any] | None = None,
    **contract: Any,
) -> ResolvedTable:
    """The plan of table ``shop.t`` with ``id`` and these columns, each led by an index; what is the
    key is unique."""
    indexes = (PRIMARY, *(Index(c.name, key == (c.name,), (c.name,)) for c in columns))
    return plan_table(
        TableContract(
            source="s",
            database="shop",
            table="t",
            key=key,
            columns=columns_rules or {},
            namespaces=default_namespaces("s", "shop"),
            **contract,
        ),
        SourceConfig(name="s", host="h", user="u", time_zone=zone),
        source_table("t", ID, *columns, indexes=indexes),
    )


def time_column(kind: str = "datetime", fraction: int = 6, name: str = "at") -> Column:
    return replace(column(name, kind), fraction=fraction)


def load_that_ended(hi: datetime | int | None) -> Load:
    """A successful load whose window ended there; times are UTC without a zone."""
    text = None if hi is None else hi.isoformat(sep=" ") if isinstance(hi, datetime) else str(hi)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    window = Window("initial", None, text, now.date())
    return Load(1, "id", 1, "s.shop.t", "success", "raw", window, None, 1, now, now, None, None)


def contract(**fields: Any) -> TableContract:
    """A contract of table ``s.d.t``, incremental and with a key where nothing else is said."""
    spaces = default_namespaces("s", "d")
    named = {"source": "s", "database": "d", "table": "t", "namespaces": spaces}
    return TableContract(**{**named, "mode": "incremental", "key": ("id",), **fields})
