"""Tenants: of each database that is mirrored with others as one table, its newest copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.loads.load_rows import storable
from mirrorlake.ledger.tables import TENANTS

TenantPlace: TypeAlias = tuple[str, str]
"""A source's name, and a database of it."""


@dataclass(frozen=True)
class Tenant:
    """One database of a table of tenants, as it was last read; moments are UTC.

    Attributes:
        version: the hash of the schema version in which it was read; None where it never was.
        load_id, seq: the load that holds its newest copy.
        rows: how many it had.
        digest: of these, as MySQL computed it, in hexadecimal; None where it did not: then nobody
            compared them with the lake.
        form: a name of the form in which they were digested: in another one they have another.
        shown: what the source showed of its last change before that (`ChangeStamp`, JSON).
        terms: a digest of the contract under which it was read.
        log_place: of a copy that its server's log continues: from where on, and by which key
            (`mirrorlake.table.tenants_in_log.CopyPlace`); None: the copy is all that there is.
        read_at: the source's clock before that read, or before the newest changes of it were read.
        seen_at: up to when it is known to be the same.
        folded: the load of which deduped has its rows; None: of none.
        gone_at: when its database, or table, was found to be no more; None: it is there.
        error, failed_at: what last kept it from being read, since its last success.
        verdict, checked_at: what its last check found (``equal``, ``different``, ``undecided`` or
            ``gone``), and when it began.
        verdict_words: why it was not found equal.
    """

    source: str
    database: str
    first_seen: datetime
    version: str | None = None
    load_id: str | None = None
    seq: int | None = None
    rows: int | None = None
    digest: str | None = None
    form: str | None = None
    shown: str | None = None
    terms: str | None = None
    log_place: str | None = None
    read_at: datetime | None = None
    seen_at: datetime | None = None
    folded: str | None = None
    gone_at: datetime | None = None
    error: str | None = None
    failed_at: datetime | None = None
    verdict: str | None = None
    checked_at: datetime | None = None
    verdict_words: str | None = None

    @property
    def place(self) -> TenantPlace:
        return (self.source, self.database)

    @property
    def state(self) -> str:
        """``failed``, ``gone``, ``new`` (never read), ``loaded`` (read and not folded yet) or
        ``mirrored``."""
        if self.gone_at is not None:
            return "gone"
        if self.error is not None:
            return "failed"
        if self.load_id is None:
            return "new"
        return "mirrored" if self.folded == self.load_id else "loaded"

    @property
    def verdict_now(self) -> str | None:
        """What its last check found; None where that was before it was gone: then it says nothing
        of now."""
        gone, checked = self.gone_at, self.checked_at
        return None if gone and checked and checked < gone else self.verdict


class Tenants:
    """The tenants in one ledger; a part of `Ledger`."""

    _database: Database

    def tenants(self, table: str) -> dict[TenantPlace, Tenant]:
        """The tenants of a table, by source and database, in their order.

        Args:
            table: its name, ``group.table``.
        """
        query = TENANTS.select().where(TENANTS.c.table_name == table)
        query = query.order_by(TENANTS.c.source, TENANTS.c.database_name)
        with self._database.read() as connection:
            found = [_tenant(dict(row)) for row in connection.execute(query).mappings()]
        return {tenant.place: tenant for tenant in found}

    def record_tenants(self, table: str, tenants: Iterable[Tenant]) -> None:
        """Write these tenants down, each in place of what was known of it; in one transaction."""
        rows = [_row(table, tenant) for tenant in tenants]
        if rows:
            with self._database.begin() as connection:
                _forget(connection, table, [(row["source"], row["database_name"]) for row in rows])
                connection.execute(TENANTS.insert(), rows)

    def record_tenants_folded(self, table: str, folded: Mapping[TenantPlace, str | None]) -> None:
        """Write down of which load deduped has each tenant's rows; None: it has none."""
        self._set(table, TENANTS.c.folded, folded)

    def record_tenant_rows(self, table: str, counts: Mapping[TenantPlace, int]) -> None:
        """Write down how many rows each of these has."""
        self._set(table, TENANTS.c.row_count, counts)

    def _set(
        self, table: str, column: sa.Column[Any], values: Mapping[TenantPlace, object]
    ) -> None:
        mine = [TENANTS.c.table_name == table, *_of(sa.bindparam("s"), sa.bindparam("d"))]
        update = TENANTS.update().where(*mine).values({column: sa.bindparam("v")})
        rows = [{"s": s, "d": d, "v": value} for (s, d), value in values.items()]
        if rows:
            with self._database.begin() as connection:
                connection.execute(update, rows)

    def forget_tenants(self, table: str, places: Iterable[TenantPlace]) -> None:
        """Forget tenants whose rows are in no layer any more."""
        listed = list(places)
        if listed:
            with self._database.begin() as connection:
                _forget(connection, table, listed)


def _of(source: Any, database: Any) -> list[sa.ColumnElement[bool]]:
    return [TENANTS.c.source == source, TENANTS.c.database_name == database]


def _forget(connection: sa.Connection, table: str, places: list[TenantPlace]) -> None:
    mine = [TENANTS.c.table_name == table, *_of(sa.bindparam("s"), sa.bindparam("d"))]
    connection.execute(TENANTS.delete().where(*mine), [{"s": s, "d": d} for s, d in places])


_TIMES = ("read_at", "seen_at", "gone_at", "failed_at", "checked_at", "first_seen")


def _tenant(row: dict[Any, Any]) -> Tenant:
    fields = {name: row[name] for name in ("source", "version", "load_id", "seq", "digest", "form")}
    fields |= {
        name: row[name]
        for name in ("shown", "terms", "log_place", "folded", "error", "verdict", "verdict_words")
    }
    for name in _TIMES:
        moment = row[name]
        fields[name] = None if moment is None else moment.replace(tzinfo=UTC)
    return Tenant(database=row["database_name"], rows=row["row_count"], **fields)


def _row(table: str, tenant: Tenant) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "table_name": table,
        "source": tenant.source,
        "database_name": tenant.database,
        "version": tenant.version,
        "load_id": tenant.load_id,
        "seq": tenant.seq,
        "row_count": tenant.rows,
        "digest": tenant.digest,
        "form": tenant.form,
        "shown": tenant.shown,
        "terms": tenant.terms,
        "log_place": tenant.log_place,
        "folded": tenant.folded,
        "verdict": tenant.verdict,
        "error": None if tenant.error is None else storable(tenant.error),
        "verdict_words": None if tenant.verdict_words is None else storable(tenant.verdict_words),
    }
    for name in _TIMES:
        moment = getattr(tenant, name)
        plain = None if moment is None else moment.astimezone(UTC).replace(tzinfo=None)
        fields[name] = plain
    return fields
