"""Which lake this ledger is of, and what our last commit left of each lake table in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.records import Load
from mirrorlake.ledger.tables import (
    CHANGE_STAMPS,
    HOLDS,
    LAKE_HEADS,
    LAKES,
    LEASES,
    LOADS,
    META,
    METADATA,
    RAW_FILES,
    REFUSALS,
    ROW_COUNTS,
    WINDOWS,
)

OF_MODELS = "model "
"""How the names of models' leases begin."""
_AT_ONCE = 500
_BEFORE_COMMITS = (CHANGE_STAMPS, HOLDS, REFUSALS)
"""What is written before anything is committed."""
_HEADS = LAKE_HEADS.select()
_HEADS_OF = _HEADS.where(LAKE_HEADS.c.table_name == sa.bindparam("name"))
_FORGET = LAKE_HEADS.delete().where(
    LAKE_HEADS.c.namespace == sa.bindparam("space"), LAKE_HEADS.c.lake_table == sa.bindparam("name")
)


@dataclass(frozen=True)
class LakeHead:
    """A lake table as our last commit left it.

    Attributes:
        table: whose lease the commit was made under.
        uuid: of the lake table; dropped and made again, it has another one.
        snapshot_id: what main showed; None of a table without a row ever.
        sequence: the number of that snapshot; 0 where there is none.
        metadata_location: the metadata file that the catalog named.
    """

    namespace: str
    lake_table: str
    table: str
    uuid: str
    snapshot_id: int | None
    sequence: int
    metadata_location: str

    @property
    def name(self) -> tuple[str, str]:
        """Namespace and name in the lake."""
        return self.namespace, self.lake_table


def identity_of_file(file: Path) -> tuple[str, str] | None:
    """Which ledger a SQLite file is, and the warehouse of its lake; None where it says neither. It
    is only read.

    Raises:
        OSError: it can't be looked at.
    """
    if not file.is_file():
        return None
    url = sa.URL.create(
        "sqlite", database=file.absolute().as_uri(), query={"mode": "ro", "uri": "true"}
    )
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    identity = sa.select(META.c.value).where(META.c.name == "identity")
    try:
        with engine.connect() as connection:
            found = connection.scalar(identity), connection.scalar(sa.select(LAKES.c.warehouse))
    except SQLAlchemyError:
        return None
    return (str(found[0]), str(found[1])) if all(found) else None


class LakeHeads:
    """The lake's identity in one ledger; a part of `Ledger`."""

    _database: Database

    def lake(self) -> tuple[str, str] | None:
        """The id of the lake that this ledger is of, and its warehouse; None before the first."""
        with self._database.read() as connection:
            row = connection.execute(LAKES.select()).first()
        return None if row is None else (row.lake_id, row.warehouse)

    def filled_table(self, besides: Collection[sa.Table] = ()) -> str | None:
        """A table of the ledger that has rows, but for what every new ledger has, and for some
        others; None: it is new."""
        with self._database.read() as connection:
            for table in METADATA.sorted_tables:
                if table not in (META, LEASES, *besides):
                    some = sa.select(sa.literal(1)).select_from(table).limit(1)
                    if connection.execute(some).first() is not None:
                        return table.name
        return None

    def knows_commits(self) -> bool:
        """Whether anything in it came of a commit to a lake. A new ledger, and one that was lost,
        know of none, whatever was looked at since."""
        return self.filled_table(besides=_BEFORE_COMMITS) is not None

    def claim_lake(self, lake_id: str, warehouse: str) -> str:
        """This ledger is of this lake, unless another run has just said of which; its id."""
        row = {"number": 1, "lake_id": lake_id, "warehouse": warehouse, "recorded_at": utc_now()}
        try:
            with self._database.begin() as connection:
                connection.execute(LAKES.insert().values(row))
        except IntegrityError:
            known = self.lake()
            return known[0] if known is not None else lake_id
        return lake_id

    def record_lake(self, lake_id: str, warehouse: str) -> None:
        """This ledger is of this lake, in place of any other."""
        row = {"number": 1, "lake_id": lake_id, "warehouse": warehouse, "recorded_at": utc_now()}
        with self._database.begin() as connection:
            connection.execute(LAKES.delete())
            connection.execute(LAKES.insert().values(row))

    def move_lake(self, lake_id: str, warehouse: str, moved: Callable[[str], str]) -> None:
        """This ledger's lake has another place: what names its files names them there.

        Args:
            moved: a path of the old place → the same file's in the new.
        """
        row = {"number": 1, "lake_id": lake_id, "warehouse": warehouse, "recorded_at": utc_now()}
        with self._database.begin() as connection:
            for table in (LAKE_HEADS, ROW_COUNTS):
                at = table.c.metadata_location
                for (old,) in connection.execute(sa.select(at).distinct()).all():
                    if (new := moved(old)) != old:
                        connection.execute(
                            table.update().where(at == old).values(metadata_location=new)
                        )
            connection.execute(LAKES.delete())
            connection.execute(LAKES.insert().values(row))

    def lake_heads(self, table: str | None = None) -> list[LakeHead]:
        """What our last commits left of the lake tables of one table, or of all."""
        query, values = (_HEADS, {}) if table is None else (_HEADS_OF, {"name": table})
        with self._database.read() as connection:
            rows = connection.execute(query, values).all()
        return [
            LakeHead(
                namespace=row.namespace,
                lake_table=row.lake_table,
                table=row.table_name,
                uuid=row.uuid,
                snapshot_id=row.snapshot_id,
                sequence=row.sequence,
                metadata_location=row.metadata_location,
            )
            for row in rows
        ]

    def record_lake_heads(self, heads: Sequence[LakeHead]) -> None:
        """Write down what commits of ours left of these lake tables. The caller holds the lease."""
        if not heads:
            return
        with self._database.begin() as connection:
            for head in heads:
                _forget(connection, head.name)
                row = {**asdict(head), "table_name": head.table, "recorded_at": utc_now()}
                del row["table"]
                connection.execute(LAKE_HEADS.insert(), row)

    def forget_lake_heads(self, names: Iterable[tuple[str, str]]) -> None:
        """These lake tables are no more, by a step of ours. The caller holds the lease."""
        with self._database.begin() as connection:
            for name in names:
                _forget(connection, name)

    def lose_loads(self, loads: Sequence[Load], reason: str, *, may_return: bool = False) -> None:
        """These loads succeeded, and raw does not hold what they read any more: their windows are
        unknown until they are read again. The caller holds the lease.

        Args:
            may_return: whether raw may be put back from a backup: what is known of its files stays.
        """
        with self._database.begin() as connection:
            for start in range(0, len(loads), _AT_ONCE):
                some = loads[start : start + _AT_ONCE]
                seqs, ids = [one.seq for one in some], [one.load_id for one in some]
                connection.execute(
                    LOADS.update()
                    .where(LOADS.c.seq.in_(seqs))
                    .values(state="unknown", error=reason)
                )
                connection.execute(
                    WINDOWS.update().where(WINDOWS.c.load_id.in_(ids)).values(state="unknown")
                )
                if may_return:
                    continue
                connection.execute(
                    RAW_FILES.delete().where(
                        RAW_FILES.c.table_name == some[0].table, RAW_FILES.c.seq.in_(seqs)
                    )
                )


def _forget(connection: sa.Connection, name: tuple[str, str]) -> None:
    connection.execute(_FORGET, dict(zip(("space", "name"), name, strict=True)))
