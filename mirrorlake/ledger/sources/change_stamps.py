"""Stamps: what a source showed of each table's last change when the newest load read it, and until
when it was seen to be unchanged since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.records import Stamp
from mirrorlake.ledger.tables import CHANGE_STAMPS

_AT_ONCE = 500


class Stamps:
    """The stamps in one ledger; a part of `Ledger`."""

    _database: Database

    def record_stamp(self, stamp: Stamp) -> None:
        """Write a table's stamp down, in place of its last one."""
        with self._database.begin() as connection:
            mine = CHANGE_STAMPS.c.table_name == stamp.table
            connection.execute(CHANGE_STAMPS.delete().where(mine))
            row = {name: value for name, value in vars(stamp).items() if name != "table"}
            row |= {"table_name": stamp.table}
            row |= {"read_at": _plain(stamp.read_at), "seen_at": _plain(stamp.seen_at)}
            connection.execute(CHANGE_STAMPS.insert(), row)

    def record_unchanged(self, found: Mapping[tuple[str, int], tuple[datetime, str]]) -> None:
        """Write down until when (UTC, by the source) tables are known to be unchanged, and by what:
        by table and the number of the load whose stamp it is. A stamp that was replaced meanwhile
        stays as it is."""
        of_table = CHANGE_STAMPS.c.table_name == sa.bindparam("of_table")
        update = CHANGE_STAMPS.update().where(of_table, CHANGE_STAMPS.c.seq == sa.bindparam("of"))
        rows = [
            {"of_table": table, "of": seq, "seen_at": _plain(seen_at), "evidence": evidence}
            for (table, seq), (seen_at, evidence) in found.items()
        ]
        if rows:
            with self._database.begin() as connection:
                connection.execute(update, rows)

    def stamps(self, tables: Sequence[str]) -> dict[str, Stamp]:
        """The stamps of these tables; none of a table that has none."""
        found: dict[str, Stamp] = {}
        with self._database.read() as connection:
            for some in (tables[n : n + _AT_ONCE] for n in range(0, len(tables), _AT_ONCE)):
                query = CHANGE_STAMPS.select().where(CHANGE_STAMPS.c.table_name.in_(some))
                for row in connection.execute(query):
                    found[row.table_name] = Stamp(
                        table=row.table_name,
                        seq=row.seq,
                        shown=row.shown,
                        terms=row.terms,
                        lake=row.lake,
                        form=row.form,
                        read_at=row.read_at.replace(tzinfo=UTC),
                        seen_at=row.seen_at.replace(tzinfo=UTC),
                        evidence=row.evidence,
                    )
        return found


def _plain(moment: datetime) -> datetime:
    """As the ledger stores it: UTC, without a zone."""
    return moment.astimezone(UTC).replace(tzinfo=None)
