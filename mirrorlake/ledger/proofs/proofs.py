"""Proofs: what was found equal to MySQL, when, and where the next chunk of a table begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.proofs.proof_records import Proof
from mirrorlake.ledger.tables import PROOF_OFFSETS, PROOFS

_TIMES = ("source_time", "started_at")
_FIRST_PAGE, _PAGE = 10, 200
"""Proofs that are read at once: most often the newest few say everything."""


class Proofs:
    """The proofs in one ledger; a part of `Ledger`."""

    _database: Database

    def record_proofs(self, proofs: Sequence[Proof], offset: tuple[str | None] | None) -> None:
        """Write one check's ranges, and where its table's next chunk begins, in one transaction.

        Args:
            offset: the first key of the next chunk (None: the beginning); None leaves it as it was.
        """
        rows = [_row(proof) for proof in proofs]
        with self._database.begin() as connection:
            if rows:
                connection.execute(PROOFS.insert(), rows)
            if offset is not None and proofs:
                table = proofs[0].table
                mine = PROOF_OFFSETS.c.table_name == table
                connection.execute(PROOF_OFFSETS.delete().where(mine))
                values = PROOF_OFFSETS.insert().values(table_name=table, next_lo=offset[0])
                connection.execute(values)

    def proofs(self, table: str) -> list[Proof]:
        """Every proof of a table, oldest first."""
        query = PROOFS.select().where(PROOFS.c.table_name == table).order_by(PROOFS.c.number)
        with self._database.read() as connection:
            return [read_proof(dict(row)) for row in connection.execute(query).mappings()]

    def newest_proofs(self, table: str) -> Iterator[Proof]:
        """The same, the newest first, read some at a time as they are taken."""
        before, page = None, _FIRST_PAGE
        while True:
            query = PROOFS.select().where(PROOFS.c.table_name == table)
            if before is not None:
                query = query.where(PROOFS.c.number < before)
            query = query.order_by(PROOFS.c.number.desc()).limit(page)
            with self._database.read() as connection:
                rows = [dict(row) for row in connection.execute(query).mappings()]
            if not rows:
                return
            before, page = rows[-1]["number"], _PAGE
            yield from (read_proof(row) for row in rows)

    def proved_tables(self) -> set[str]:
        """The tables of which anything was compared."""
        with self._database.read() as connection:
            return set(connection.scalars(sa.select(PROOFS.c.table_name).distinct()))

    def not_equal_tables(self) -> set[str]:
        """The tables of which any check, however old, found rows that are not equal."""
        query = sa.select(PROOFS.c.table_name).where(PROOFS.c.verdict != "equal").distinct()
        with self._database.read() as connection:
            return set(connection.scalars(query))

    def proof_offset(self, table: str) -> str | None:
        """The key at which a table's next chunk begins; None for the beginning."""
        query = sa.select(PROOF_OFFSETS.c.next_lo).where(PROOF_OFFSETS.c.table_name == table)
        with self._database.read() as connection:
            return connection.scalar(query)


def _row(proof: Proof) -> dict[str, Any]:
    row = asdict(proof)
    row["table_name"] = row.pop("table")
    for name in _TIMES:
        at: datetime = row[name]
        row[name] = at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at
    return row


def read_proof(row: dict[str, Any]) -> Proof:
    """A row of `PROOFS`, which is used up."""
    row["table"] = row.pop("table_name")
    del row["number"]
    for name in _TIMES:
        row[name] = row[name].replace(tzinfo=UTC)
    return Proof(**row)
