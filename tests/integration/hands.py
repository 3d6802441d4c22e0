"""What other hands do to a lake table: restores, rollbacks, a colleague's writes, other tools'
upkeep. By PyIceberg, by Spark without a word of ours, or in the catalog's database itself.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import BY
from mirrorlake.destinations.iceberg.spark.settings import activate, catalog_settings
from tests.integration.conftest import Place
from tests.support.postgres import Postgres


@dataclass(frozen=True)
class LakePart:
    """A lake table that hands move.

    Attributes:
        before: the metadata file that the catalog named before our last commits.
        key: a whole number column of it that no two rows share.
        database: the catalog's on a server; by default it is the place's.
        postgres: the server that has it.
    """

    place: Place
    identifier: Identifier
    before: str = ""
    key: str = "id"
    database: str = ""
    postgres: Postgres | None = None

    def load(self) -> Any:
        found = self.place.lake.load(self.identifier)
        assert found is not None, self.identifier
        return found

    @property
    def folder(self) -> Path:
        return Path("/" + self.load().location().removeprefix("file:").lstrip("/"))

    def in_catalog(self, statement: str, *values: str) -> list[Any]:
        """What the catalog's database says to a statement that ends with the table's name, past
        every library."""
        statement += " WHERE table_namespace = ? AND table_name = ? RETURNING metadata_location"
        given = (*values, *self.identifier.path)
        if self.postgres is not None:
            with self.postgres.admin(self.database) as server:
                return server.execute(statement.replace("?", "%s").encode(), given).fetchall()
        with closing(
            sqlite3.connect(self.place.folder / (self.database or self.place.database))
        ) as file:
            found = file.execute(statement, given).fetchall()
            file.commit()
            return found

    @property
    def metadata_location(self) -> str:
        """The metadata file that the catalog names, of a view, too."""
        named = "UPDATE iceberg_tables SET table_name = table_name"
        return str(self.in_catalog(named)[0][0])

    def name(self, location: str) -> None:
        """Have the catalog name another metadata file."""
        self.in_catalog("UPDATE iceberg_tables SET metadata_location = ?", location)

    def forget(self) -> None:
        """Take a table out of the catalog."""
        self.in_catalog("DELETE FROM iceberg_tables")

    def spark(self, statement: str) -> None:
        """Run a statement as somebody with a Spark of their own does: nothing says that it is
        ours."""
        spark = self.place.spark.get().newSession()
        for name, value in catalog_settings(self.place.lake).items():
            spark.conf.set(name, value)
        spark.conf.unset(f"spark.sql.iceberg.snapshot-property.{BY}")
        activate(spark)
        spark.sql(statement)

    def call(self, procedure: str, **arguments: str) -> None:
        """Call a procedure of Iceberg's."""
        said = "".join(f", {name} => {value}" for name, value in arguments.items())
        self.spark(f"CALL lake.system.{procedure}(table => '{self.identifier}'{said})")


Hand: TypeAlias = Callable[[LakePart], None]


def set_back(at: LakePart) -> None:
    found = at.load()
    parent = found.current_snapshot().parent_snapshot_id
    found.manage_snapshots().set_current_snapshot(snapshot_id=parent).commit()


def old_catalog(at: LakePart) -> None:
    """The catalog is a copy from before the last sync; the files are all there."""
    at.name(at.before)


def old_lake(at: LakePart) -> None:
    """The lake's files and its catalog are a copy from before the last sync."""
    at.name(at.before)
    named = Path(at.before.removeprefix("file:"))
    newer = [path for path in named.parent.glob("*.metadata.json") if path.name > named.name]
    assert newer
    for path in newer:
        path.unlink()


def row_deleted(at: LakePart) -> None:
    at.spark(f"DELETE FROM {at.identifier.sql} WHERE {at.key} = 3")


def row_added(at: LakePart) -> None:
    names = [f"`{field.name}`" for field in at.load().schema().fields]
    wanted = ", ".join("99" if name == f"`{at.key}`" else name for name in names)
    at.spark(
        f"INSERT INTO {at.identifier.sql} SELECT {wanted} FROM {at.identifier.sql}"
        f" WHERE {at.key} = 3 LIMIT 1"
    )


def _columns(at: LakePart) -> list[str]:
    """Those that are not ours, and by which the table has no partitions: Iceberg refuses to drop
    or rename these."""
    table = at.load()
    parts = {field.source_id for field in table.spec().fields}
    found = (field.name for field in table.schema().fields if field.field_id not in parts)
    return [name for name in found if not name.startswith("_mirror")]


def _column(at: LakePart) -> str:
    """One of them that is not the key."""
    return next(name for name in _columns(at)[::-1] if name != at.key)


def column_dropped(at: LakePart) -> None:
    at.spark(f"ALTER TABLE {at.identifier.sql} DROP COLUMN `{_column(at)}`")


def column_dropped_and_rows(at: LakePart) -> None:
    """A row is deleted, too, and files are written again without the column."""
    column_dropped(at)
    row_deleted(at)
    compacted(at)


def column_dropped_for_good(at: LakePart) -> None:
    """The metadata files of before are gone, too."""
    folder = at.folder / "metadata"
    column_dropped(at)
    for path in folder.glob("*.metadata.json"):
        if path.name != at.load().metadata_location.rpartition("/")[2]:
            path.unlink()


def columns_exchanged(at: LakePart) -> None:
    """Two columns have each other's names."""
    first, *_, last = _columns(at)
    table = f"ALTER TABLE {at.identifier.sql} RENAME COLUMN"
    at.spark(f"{table} `{first}` TO between")
    at.spark(f"{table} `{last}` TO `{first}`")
    at.spark(f"{table} between TO `{last}`")


def column_widened(at: LakePart) -> None:
    at.spark(f"ALTER TABLE {at.identifier.sql} ALTER COLUMN `{at.key}` TYPE BIGINT")


def column_added(at: LakePart) -> None:
    """With a row."""
    at.spark(f"ALTER TABLE {at.identifier.sql} ADD COLUMN theirs INT")
    row_added(at)


def renamed(at: LakePart) -> None:
    namespace, name = at.identifier.path
    at.place.lake.catalog.rename_table((namespace, name), (namespace, f"{name}_old"))


def out_of_catalog(at: LakePart) -> None:
    at.forget()


def purged(at: LakePart) -> None:
    folder = at.folder
    at.forget()
    shutil.rmtree(folder)


def another(at: LakePart) -> None:
    """The table has another name, and an empty one has its."""
    identifier, found = at.identifier, at.load()
    catalog = at.place.lake.catalog
    catalog.rename_table(identifier.path, (identifier.namespace, f"{identifier.name}_old"))
    location = f"{found.location()}_elsewhere"
    catalog.create_table(identifier.path, found.schema(), location=location)


def expired(at: LakePart) -> None:
    """Somebody's upkeep takes every version but the newest, and the files of the others."""
    at.call("expire_snapshots", older_than="TIMESTAMP '2999-01-01'", retain_last="1")


def compacted(at: LakePart) -> None:
    at.call("rewrite_data_files", options="map('rewrite-all', 'true')")


def branch_dropped(at: LakePart) -> None:
    """Whatever branch there is beside main."""
    found = at.load()
    for name, ref in found.metadata.refs.items():
        if name != "main" and str(ref.snapshot_ref_type.value) == "branch":
            found.manage_snapshots().remove_branch(name).commit()
