"""What is made of loads: folds, the definitions of views and clean tables, schema versions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

import sqlalchemy as sa

from mirrorlake.errors import LedgerError
from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.database.servers import begins_with
from mirrorlake.ledger.loads.load_rows import is_folded, read_loads
from mirrorlake.ledger.loads.settling import note_folds
from mirrorlake.ledger.records import Load
from mirrorlake.ledger.tables import CHUNKED, FOLDS, LOADS, VERSIONS, VIEWS
from mirrorlake.schema.versions import SchemaVersion

# Made once: a sync reads these some ten times a table, and making a statement takes longer than
# SQLite does.
_DEFINITION = sa.select(VIEWS.c.definition).where(VIEWS.c.view_name == sa.bindparam("name"))
_FORGET = VIEWS.delete().where(VIEWS.c.view_name == sa.bindparam("name"))
_FOLDED = sa.select(FOLDS.c.seq).where(
    FOLDS.c.table_name == sa.bindparam("name"), FOLDS.c.layer == sa.bindparam("layer")
)
_SEEN = (
    sa.select(VERSIONS.c.columns, VERSIONS.c.raw_table, VERSIONS.c.hash)
    .where(VERSIONS.c.table_name == sa.bindparam("name"))
    .order_by(VERSIONS.c.number)
)


class Folds:
    """The folds and schema versions in one ledger; a part of `Ledger`."""

    _database: Database

    def folded_loads(self, table: str, layer: str) -> set[int]:
        """The sequence numbers of the loads that a layer holds."""
        with self._database.read() as connection:
            return {*connection.scalars(_FOLDED, {"name": table, "layer": layer})}

    def unfolded_loads(self, layer: str, after_seq: int = 0) -> list[Load]:
        """Loads of any table that a layer does not hold, or that are not known to have ended (or
        may be resumed), with a higher sequence number; in its order."""
        held = is_folded(layer)
        with self._database.read() as connection:
            return read_loads(
                connection,
                LOADS.c.seq > after_seq,
                sa.or_(
                    LOADS.c.state == "pending",
                    sa.exists().where(CHUNKED.c.seq == LOADS.c.seq),
                    sa.and_(LOADS.c.state == "success", ~held),
                ),
            )

    def record_folds(self, table: str, layer: str, seqs: Iterable[int], run_id: str = "") -> None:
        """The layer now holds these loads; ``run_id`` is of the run that folded them."""
        known = self.folded_loads(table, layer)
        new = sorted(set(seqs) - known)
        rows = [
            {"table_name": table, "layer": layer, "seq": seq, "folded_at": utc_now()} for seq in new
        ]
        if rows:
            with self._database.begin() as connection:
                connection.execute(FOLDS.insert(), rows)
                note_folds(connection, table, layer, new, run_id)

    def definition(self, name: str) -> str | None:
        """The definition that a view or clean table was last made with, or None."""
        with self._database.read() as connection:
            return connection.scalar(_DEFINITION, {"name": name})

    def definitions(self, prefix: str, within: str = "") -> dict[str, str]:
        """Every definition whose name begins so, and has the other text in it, by name."""
        has = VIEWS.c.view_name.contains(within, autoescape=True)
        with self._database.read() as connection:
            begins = begins_with(connection, VIEWS.c.view_name, prefix)
            rows = connection.execute(VIEWS.select().where(begins, has)).all()
        return {row.view_name: row.definition for row in rows}

    def record_definition(self, name: str, definition: str) -> None:
        """A view or clean table now has this definition."""
        with self._database.begin() as connection:
            connection.execute(_FORGET, {"name": name})
            connection.execute(VIEWS.insert(), {"view_name": name, "definition": definition})

    def forget_definition(self, name: str) -> None:
        """A view or clean table is no more."""
        with self._database.begin() as connection:
            connection.execute(_FORGET, {"name": name})

    def schema_versions(self, table: str) -> list[SchemaVersion]:
        """The versions seen of a table, oldest first."""
        with self._database.read() as connection:
            found = connection.execute(_SEEN, {"name": table}).all()
        return [
            SchemaVersion(raw.removesuffix(f"_v_{hashed}"), tuple((n, t) for n, t in json.loads(c)))
            for c, raw, hashed in found
        ]

    def first_seen(self, table: str) -> dict[str, datetime]:
        """When each version of a table was first met (UTC), by its hash."""
        query = sa.select(VERSIONS.c.hash, VERSIONS.c.first_seen).where(
            VERSIONS.c.table_name == table
        )
        with self._database.read() as connection:
            return {str(name): seen for name, seen in connection.execute(query)}

    def record_schema_version(
        self, table: str, version: SchemaVersion, first_seen: datetime | None = None
    ) -> None:
        """Write a version that was seen for the first time, or that came back, as the newest.

        Args:
            first_seen: when, if it is not known yet (UTC); None: now.

        Raises:
            LedgerError: another version of the table has its hash; nothing was changed.
        """
        where = sa.and_(VERSIONS.c.table_name == table, VERSIONS.c.hash == version.hash)
        columns = json.dumps(version.columns, ensure_ascii=False)
        with self._database.begin() as connection:
            newest = connection.scalar(
                sa.select(sa.func.max(VERSIONS.c.number)).where(VERSIONS.c.table_name == table)
            )
            held = connection.execute(VERSIONS.select().where(where)).first()
            if held is not None and json.loads(held.columns) != json.loads(columns):
                raise LedgerError(
                    f"table {table}: two of its schema versions have the hash {version.hash}: "
                    "their rows would share a raw table",
                    table=table,
                    next_step="Change the table once more (the order of its columns suffices), or "
                    "mirror it under other namespaces",
                )
            connection.execute(VERSIONS.delete().where(where))
            connection.execute(
                VERSIONS.insert().values(
                    table_name=table,
                    hash=version.hash,
                    raw_table=version.raw_table,
                    columns=columns,
                    first_seen=(held and held.first_seen) or _plain(first_seen) or utc_now(),
                    number=(newest or 0) + 1,
                )
            )


def _plain(moment: datetime | None) -> datetime | None:
    return moment and moment.astimezone(UTC).replace(tzinfo=None)
