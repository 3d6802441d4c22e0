"""Versions that are to be in BigQuery under a name of their own, as the ledger knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias

import sqlalchemy as sa

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import waits_for_server
from mirrorlake.ledger.tables import METADATA
from mirrorlake.runtime.google.tables import BigQueryTable

if TYPE_CHECKING:
    from mirrorlake.bigquery.api.client import TableDescription

NAMED_VERSIONS = sa.Table(
    "bigquery_named_versions",
    METADATA,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("form", sa.Text),
    sa.Column("view", sa.Text, nullable=False),
    sa.Column("texts", sa.Text, nullable=False),
)
VersionState: TypeAlias = Literal["pending", "there", "leaving"]


@dataclass(frozen=True)
class VersionThere:
    """A table's version under a name.

    Attributes:
        name: under which it is to be there.
        table: whose it is, as the contract calls it.
        address: of its table in BigQuery.
        version: of deduped.
        state: ``pending`` until it is there as a whole with its views; ``leaving``: it is to be
            there no more.
        form: its columns, as `mirrorlake.bigquery.loads.table_form` writes them; None: this ledger
            made nothing yet, so that what has its name is somebody else's, unless it says that a
            ledger that was lost made it.
        view: where readers read it; '' where nobody may.
        texts: of its views as they were made last, by kind; '' before.
    """

    name: str
    table: str
    address: str
    version: int
    state: VersionState
    form: str | None
    view: str
    texts: str

    @property
    def target(self) -> BigQueryTable:
        """Its table in BigQuery."""
        return BigQueryTable(*self.address.split(".", 2))

    @property
    def reads(self) -> str:
        """How readers read it, in BigQuery's SQL; '' where nobody may."""
        return f"SELECT * FROM `{self.view}`" if self.view else ""  # noqa: S608 - a name

    def described(self, form: str) -> str:
        """The description of its table in BigQuery, with these columns: the only thing that says
        what it is once a ledger was lost."""
        columns = sha256(form.encode()).hexdigest()[:16]
        return f"{self._begins}version {self.version}, columns {columns}"

    def made(self, found: TableDescription | None) -> bool:
        """Whether what has the name of its table was made for it, by its description."""
        return found is not None and found.words.startswith(self._begins)

    @property
    def _begins(self) -> str:
        return f"Mirrorlake: {self.table} at {self.name}, "

    @property
    def loaded_as(self) -> str:
        """What the ledger calls loads of it, where it is loaded for itself."""
        return f"{self.table} at {self.name}"


@waits_for_server
class VersionsThere:
    """The versions under names in one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def begin(self, name: str, versions: Mapping[str, tuple[str, int]]) -> None:
        """Versions are to be there under a name. What else is there under it, of one that was
        dropped before, is to go.

        Args:
            versions: table → where it will be, and its version.
        """
        columns = NAMED_VERSIONS.c
        with self._database.begin() as connection:
            of_name = NAMED_VERSIONS.update().where(columns.name == name)
            connection.execute(of_name.values(state="leaving"))
            for table, (address, version) in versions.items():
                one = (columns.name == name) & (columns.table_name == table)
                values = {"address": address, "version": version, "state": "pending"}
                values |= {"view": "", "texts": ""}
                if not connection.execute(
                    NAMED_VERSIONS.update().where(one).values(**values)
                ).rowcount:
                    row = {"name": name, "table_name": table, **values}
                    connection.execute(NAMED_VERSIONS.insert().values(**row))

    def record(self, one: VersionThere) -> None:
        """Record what became of one."""
        values = {"state": one.state, "form": one.form, "view": one.view, "texts": one.texts}
        with self._database.begin() as connection:
            connection.execute(NAMED_VERSIONS.update().where(_only(one)).values(**values))

    def forget(self, one: VersionThere) -> None:
        """One is there no more."""
        with self._database.begin() as connection:
            connection.execute(NAMED_VERSIONS.delete().where(_only(one)))

    def of(self, name: str) -> Sequence[VersionThere]:
        """Those under a name, by table."""
        return self._all(NAMED_VERSIONS.c.name == name)

    def of_table(self, table: str) -> Sequence[VersionThere]:
        """Those of a table, by name."""
        return self._all(NAMED_VERSIONS.c.table_name == table)

    def all(self) -> Sequence[VersionThere]:
        """Those of all tables, by name and table."""
        return self._all(sa.true())

    def _all(self, wanted: sa.ColumnElement[bool]) -> Sequence[VersionThere]:
        order = (NAMED_VERSIONS.c.name, NAMED_VERSIONS.c.table_name)
        with self._database.read() as connection:
            rows = connection.execute(NAMED_VERSIONS.select().where(wanted).order_by(*order)).all()
        return [_version(row) for row in rows]


def _version(row: sa.Row[tuple[object, ...]]) -> VersionThere:
    return VersionThere(
        name=row.name,
        table=row.table_name,
        address=row.address,
        version=row.version,
        state=row.state,
        form=row.form,
        view=row.view,
        texts=row.texts,
    )


def _only(one: VersionThere) -> sa.ColumnElement[bool]:
    return sa.and_(NAMED_VERSIONS.c.name == one.name, NAMED_VERSIONS.c.table_name == one.table)
