"""A table of tenants over databases of a test's own, and whether its layers are what MySQL has.

MySQL is read by PyMySQL, one tenant after the other, and compared value by value: nothing of the
engine's reading, folding or proving is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from mirrorlake.config import Config, TenantTable, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.tenants.results import SyncTerms, TenantsSynced
from mirrorlake.operations.tenants.sync import sync_tenants
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, PASSWORD, USER, Place
from tests.support.postgres import PASSWORD as POSTGRES_PASSWORD
from tests.support.rest_catalog import CREDENTIAL


@dataclass
class Tenants:
    """Databases ``<prefix>_…`` of one server, and the mirror of their table ``orders``.

    Attributes:
        contract: what the file says of the table.
        table: what it calls the table.
        ledger: the URL of the ledger.
        user: the account that reads.
        group: what it says of the tenants, beside their patterns.
        file: what it says beside that.
        environment: what the file takes from there.
        others: ports of other servers that the tenants may be on, by the name of the source.
        databases: what it says of other databases of the server.
    """

    server: EmbeddedServer
    place: Place
    prefix: str
    contract: dict[str, Any] = field(default_factory=lambda: {"key": ["id"]})
    group: dict[str, Any] = field(default_factory=dict[str, Any])
    made: list[str] = field(default_factory=list[str])
    table: str = "orders"
    ledger: str = "sqlite:///ledger.db"
    user: str = USER
    others: dict[str, int] = field(default_factory=dict[str, int])
    file: dict[str, Any] = field(default_factory=dict[str, Any])
    databases: dict[str, Any] = field(default_factory=dict[str, Any])
    environment: dict[str, str] = field(
        default_factory=lambda: {
            "TEST_PASSWORD": PASSWORD,
            "TEST_HASH_KEY": HASH_KEY,
            "CATALOG_CREDENTIAL": CREDENTIAL,
            "PG_PASSWORD": POSTGRES_PASSWORD,
        }
    )

    def sql(self, *statements: str, database: str | None = None) -> Any:
        """Run statements, in UTC and with a lenient mode; the last rows."""
        connection = self.server.admin(database)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
                for statement in statements:
                    cursor.execute(statement)
                return cursor.fetchall()
        finally:
            connection.close()

    def name(self, tenant: str) -> str:
        return f"{self.prefix}_{tenant}"

    def make(self, tenant: str, columns: str, *rows: str, table: str = "orders") -> str:
        """A database with a table, and rows as SQL's VALUES."""
        database = self.name(tenant)
        self.sql(f"CREATE DATABASE IF NOT EXISTS `{database}` CHARACTER SET utf8mb4")
        if database not in self.made:
            self.made.append(database)
        self.sql(f"CREATE TABLE `{table}` ({columns})", database=database)
        if rows:
            self.sql(f"INSERT INTO `{table}` VALUES {', '.join(rows)}", database=database)
        return database

    def run(self, tenant: str, *statements: str) -> Any:
        """Run statements in a tenant's database."""
        return self.sql(*statements, database=self.name(tenant))

    def drop(self, tenant: str) -> None:
        self.sql(f"DROP DATABASE `{self.name(tenant)}`")
        self.made.remove(self.name(tenant))

    def write(self) -> Path:
        """The contract file."""
        text: dict[str, Any] = {
            "version": 1,
            **self.file,
            "lake": dict(self.place.settings),
            "ledger": {"url": self.ledger},
            "sources": {
                name: {
                    "host": "127.0.0.1",
                    "port": port,
                    "user": self.user,
                    "password": "${env:TEST_PASSWORD}",
                }
                for name, port in {"s": self.server.port, **self.others}.items()
            },
            "tenants": {
                self.prefix: {
                    "sources": ["s", *self.others],
                    "databases": [f"{self.prefix}_%"],
                    **self.group,
                    "tables": {self.table: self.contract},
                }
            },
        }
        if self.databases:
            text["sources"]["s"]["databases"] = self.databases
        path = self.place.folder / f"{self.prefix}.yaml"
        path.write_text(yaml.safe_dump(text, allow_unicode=True), encoding="utf-8")
        return path

    def config(self) -> Config:
        return load_config(self.write(), environ=self.environment)

    @contextmanager
    def opened(self) -> Iterator[tuple[Workspace, TenantTable]]:
        with Workspace.open(self.config(), spark=self.place.spark) as workspace:
            yield workspace, workspace.config.tenant_table(self.table)

    def sync(self, **terms: Any) -> TenantsSynced:
        with self.opened() as (workspace, table):
            return sync_tenants(workspace, table, SyncTerms(**terms))

    # --- what is there ----------------------------------------------------------------------------

    def mysql(self, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of each tenant's table, sorted by their texts."""
        listed = ", ".join(f"`{name}`" for name in columns) or "*"
        return {
            database: sorted(self.sql(f"SELECT {listed} FROM orders", database=database), key=str)
            for database in self.made
        }

    def deduped(self, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
        """The same of deduped, read by PyIceberg; of tenants that have rows there."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        for row in self.rows().to_pylist():
            cells = tuple(row[name] for name in columns)
            found.setdefault(row["_mirror_database"], []).append(cells)
        return {database: sorted(rows, key=str) for database, rows in found.items()}

    def rows(self) -> pa.Table:
        with self.opened() as (workspace, table):
            found = workspace.lake.load(Identifier(table.namespaces.deduped, table.table))
            assert found is not None
            return found.scan().to_arrow()

    def shown(self, layer: str = "clean", name: str = "orders") -> list[dict[str, Any]]:
        """What Spark shows of a layer's view."""
        with self.opened() as (workspace, table):
            space = getattr(table.namespaces, layer)
            rows = workspace.spark.get().table(f"lake.{space}.{name}").collect()
            return [row.asDict(recursive=True) for row in rows]

    def close(self) -> None:
        for database in self.made:
            self.sql(f"DROP DATABASE `{database}`")


Make = Callable[..., Tenants]
